"""A section that is written wrongly is answered with one that is right."""

import pytest

from piop.errors import SpecError
from piop.problem import Problem
from piop.spec.reader import EXAMPLES
from piop.spec.sections import SECTIONS
from tests.docs.pages import sections
from tests.small_heat import HEAT


@pytest.mark.parametrize("section", EXAMPLES)
def test_a_section_without_keys_is_answered_with_an_example(section):
    assert section in SECTIONS
    text = "".join({**sections(HEAT), section: f"{section}: wrong\n"}.values())
    with pytest.raises(SpecError) as caught:
        Problem.from_yaml(text)
    issue = next(i for i in caught.value.issues if "pairs are needed" in i.message)
    assert issue.hint == f"Such as {section}: {EXAMPLES[section]}."
