"""The conditions on each face of the domain, from the words of ``boundary:``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from piop.boundary import BoundaryCondition
from piop.errors import Issue, Place
from piop.expression.parse import did_you_mean
from piop.spec.model import Spec
from piop.spec.names import refuse
from piop.spec.read_domain import part_names
from piop.spec.resolve import Resolved

Faces = Mapping[str, tuple[BoundaryCondition, ...]]


def _box_faces(spec: Spec) -> list[str]:
    """``x.min``, ``x.max`` and so on."""
    return [f"{axis}.{end}" for axis in spec.space for end in ("min", "max")]


def build_boundary(
    spec: Spec, resolved: Resolved, shapes: Mapping[str, Sequence[str]], issues: list[Issue]
) -> tuple[frozenset[str], Faces]:
    """Spread the conditions of an axis, and of ``rest``, over the faces they mean.

    Args:
        spec: As written.
        resolved: Its conditions.
        shapes: Faces of every shape that a sample may have, by where it stands; nothing for a box.
        issues: Takes what is wrong.

    Returns:
        The periodic axes, and the conditions of every other face that a shape has.
    """
    faces = list(dict.fromkeys(face for own in shapes.values() for face in own))
    faces = faces or [*_box_faces(spec), *part_names(spec.domain)]
    periodic = set()
    found: dict[str, list[BoundaryCondition]] = {face: [] for face in faces}
    given: set[str] = set()
    for key, conditions in sorted(resolved.boundary.items(), key=lambda item: item[0] == "rest"):
        targets = _targets(key, spec, faces, given)
        place = spec.place(f"boundary.{key}")
        if targets is None:
            allowed = [*spec.space, *faces, "rest"]
            hint = did_you_mean(key, allowed) or f"One of {', '.join(allowed)}."
            refuse(issues, place, f"boundary: '{key}' is not a face or an axis", hint)
            continue
        if not targets and key in spec.space:
            message = f"boundary.{key}: no part of the boundary lies on a side across {key}"
            refuse(issues, place, message, f"The faces are {', '.join(faces)}.")
        if any(c.whole_axis for c in conditions):
            if key not in spec.space:
                refuse(issues, place, f"boundary.{key}: periodic holds for a whole axis, such as x")
            elif len(conditions) > 1:
                refuse(issues, place, f"boundary.{key}: periodic excludes any other condition")
            else:
                periodic.add(key)
        if key != "rest":
            _on_all(key, targets, shapes, place, issues)
        given.update(targets)
        for face in targets:
            found[face] += [c for c in conditions if not c.whole_axis]
    for axis in sorted(periodic):
        for face in (f"{axis}.min", f"{axis}.max"):
            if found.pop(face, None):
                place = spec.place(f"boundary.{face}")
                refuse(
                    issues, place, f"boundary.{face}: {axis} is periodic; it has no other condition"
                )
    return frozenset(periodic), MappingProxyType({k: tuple(v) for k, v in found.items()})


def _on_all(
    key: str,
    targets: Sequence[str],
    shapes: Mapping[str, Sequence[str]],
    place: Place,
    issues: list[Issue],
) -> None:
    """Refuse a face that some of the shapes to choose from have and others have not."""
    if not targets:
        return
    for where, own in shapes.items():
        if not set(targets) & set(own):
            message = f"boundary.{key}: {where} has no such face, and samples may have that shape"
            hint = f"Its faces are {', '.join(own)}; 'rest' holds on all faces, whatever they are."
            refuse(issues, place, message, hint)


def _targets(key: str, spec: Spec, faces: list[str], given: set[str]) -> list[str] | None:
    if key in spec.space:
        return [f for f in faces if f in (f"{key}.min", f"{key}.max")]
    if key == "rest":
        return [face for face in faces if face not in given]
    return [key] if key in faces else None
