"""No name leads out of ``runs``, and no title is lost."""

from tests.faults import names


def test_names_and_titles_are_safe_or_refused(tmp_path):
    assert [o.detail for o in names.attack(60, 0, tmp_path) if not o.survived] == []


def test_an_unchecked_name_is_noticed(tmp_path, monkeypatch):
    class Unchecked:
        name = "../../escaped"

    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    monkeypatch.setattr(names, "_problem", lambda name, title: Unchecked())
    assert not names._name_is_safe("any")
