"""``piop report`` and ``piop plot``."""


def test_a_report_and_a_figure_are_written(piop, finished, tmp_path):
    assert (finished / "report.html").exists()  # by piop solve
    code, out, err = piop("report", finished, "--output", tmp_path / "r.html")
    assert (code, out) == (0, f"Wrote {tmp_path / 'r.html'}\n")
    assert "drawing (report)" in err
    assert (tmp_path / "r.html").stat().st_size < 5e6
    code, out, _ = piop(
        "plot", finished, "--figure", "fields", "--unknown", "u", "--output", tmp_path / "f.pdf"
    )
    assert (code, out) == (0, f"Wrote {tmp_path / 'f.pdf'}\n")
    content = (tmp_path / "f.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert b"/Type42" in content or b"/FontFile2" in content or b"/CIDFontType2" in content
    assert b"/Type3" not in content


def test_what_cannot_be_reported_is_refused(piop, finished, tmp_path):
    code, _, err = piop("report", tmp_path)
    assert code == 2
    assert f"{tmp_path}: is not a run folder: it has no config.json" in err
    (taken := tmp_path / "r.html").write_text("mine")
    code, _, err = piop("report", finished, "--output", taken)
    assert (code, "exists already" in err, taken.read_text()) == (2, True, "mine")
    assert piop("report", finished, "--output", taken, "--force")[0] == 0
    code, _, err = piop("plot", finished, "--figure", "field", "--output", tmp_path / "f.pdf")
    assert code == 2
    assert "'field' is not one of fields, residual" in err
    missing = tmp_path / "no" / "f.pdf"
    code, _, err = piop("plot", finished, "--figure", "losses", "--output", missing)
    assert code == 2
    assert f"{missing}: cannot be written" in err
