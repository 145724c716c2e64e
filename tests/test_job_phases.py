"""The seconds of the phases of a job."""

from piop.job_phases import JobPhase, JobPhases


def test_seconds_of_phases_add_up_over_returns_to_them(monkeypatch):
    clock = iter([1.0, 3.0, 3.0, 7.0, 7.0, 8.0])
    monkeypatch.setattr("piop.job_phases.time.perf_counter", lambda: next(clock))
    phases = JobPhases()
    for phase in (JobPhase.TRAINING, JobPhase.COMPILING, JobPhase.TRAINING):
        phases.enter(phase)
    phases.finish()
    assert phases.seconds == {"training": 2.0 + 1.0, "compiling": 4.0}
    assert phases.summary() == "Seconds: training 3, compiling 4"
    assert JobPhases().summary() == ""


def test_an_entered_phase_ends_the_one_before(monkeypatch):
    clock = iter([1.0, 3.0, 3.0])
    monkeypatch.setattr("piop.job_phases.time.perf_counter", lambda: next(clock))
    phases = JobPhases()
    phases.enter(JobPhase.PREPARING)
    phases.enter(JobPhase.TRAINING)
    assert phases.current is JobPhase.TRAINING
    assert phases.seconds == {"preparing": 2.0, "training": 0.0}
