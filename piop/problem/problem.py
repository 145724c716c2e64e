"""`Problem`: one PDE, parsed and checked, that every consumer reads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Self

from sympy import Expr

from piop.arguments import file_path, flag
from piop.boundary import BoundaryCondition
from piop.domain import Coordinate, Domain
from piop.errors import Issue, SpecError, UsageError, did_you_mean, excerpt
from piop.expression import Quantity
from piop.forms.pde import PDE, Input
from piop.problem import late_imports
from piop.problem.build import build
from piop.problem.capabilities import Capabilities, find_capabilities
from piop.problem.describe import to_html, to_text
from piop.problem.inverse_operator import inverse_spec
from piop.problem.wellposed import check
from piop.spec.load import Draft, builtin_names, draft_file, draft_spec, draft_tree, find_builtin
from piop.spec.model import LearnSpec, Setting, Spec
from piop.spec.tree import ScalarNode, read_objects, read_yaml
from piop.spec.writer import spec_to_yaml

if TYPE_CHECKING:
    from piop.fields import InputFunction
    from piop.reference import Solution
    from piop.residual import Residual
    from piop.run import Run


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Problem:
    """One PDE with its conditions, inputs and units; immutable, compared by its canonical hash.

    Takes the words of the YAML as keyword arguments, with strings, numbers or SymPy expressions:

    >>> problem = Problem(
    ...     name="heat",
    ...     time={"t": [0, 1]},
    ...     space={"x": [0, 1]},
    ...     unknowns=["u"],
    ...     inputs={"u0": {"of": ["x"], "law": "fourier_series", "terms": 3,
    ...                    "amplitude": [-1, 1], "wavenumber": [1, 3]}},
    ...     equations=["dt(u) = 0.1*dxx(u)"],
    ...     initial={"u": "u0"},
    ...     boundary={"x": "periodic"},
    ... )
    >>> problem.residuals
    (Derivative(u(t, x), t) - Derivative(u(t, x), (x, 2))/10,)

    Attributes:
        spec: As written.
        name: Of the problem.
        hash: SHA-256 of what the spec means, however it is spelled.
        pde: Equations, coordinates, inputs and conditions; those that users need are properties of
            the problem too (``problem.residuals``).
        angles: Angles of stars in the domain, which inputs may be of; no query has them.
        save: Points of references and evaluations, ``(T, n1, …)`` or ``(n1, …)``. Times include
            both ends; periodic axes leave the right end out.
        points: Points of solutions on shapes; None for the corners of triangles whose sides are as
            long as the steps of the ``save`` grid.
        units: Unit of each name that has one.
        solve: The recipe known to work (``solve:``).
        learn: The inverse operator that is asked for, if any.
        parameters: Constant parameters.
        definitions: Named sub-expressions.
        notes: On what is let pass, such as data that are periodic to seven digits.
    """

    spec: Spec
    name: str
    hash: str
    pde: PDE
    angles: tuple[Coordinate, ...]
    save: tuple[int, ...]
    points: int | None
    units: Mapping[str, str]
    solve: Mapping[str, Setting]
    learn: LearnSpec | None
    parameters: Mapping[str, float]
    definitions: Mapping[str, Quantity]
    notes: tuple[str, ...]

    def __init__(self, **words: Any) -> None:
        """Build from the words of the spec language.

        Raises:
            SpecError: With everything that is wrong.
        """
        self._fill(draft_tree(read_objects(words), None))

    @classmethod
    def from_file(cls, path: str | Path, check_units: bool = True) -> Self:
        """Read a YAML file, or a built-in problem by its name such as ``"burgers"``.

        Args:
            path: The file, or the name.
            check_units: Whether units must be known and the formulas consistent with them; runs
                that began before this was checked have any labels.

        Raises:
            UsageError: If it is neither text nor a path.
            SpecError: With every issue and its place, or if there is no such file.
        """
        file_path("path", path, "the name of a built-in problem")
        check_units = flag("check_units", check_units)
        found = find_builtin(path)
        if found is None and not os.path.exists(path):  # noqa: PTH110  a Path raises on long names
            name, known = PurePath(path), builtin_names()
            bare = len(name.parts) <= 1
            wrong = "no such file" + (", and no built-in problem" if bare else "")
            those = "" if name.suffix or not bare else f"Those are {', '.join(known)}."
            hint = did_you_mean(name.stem, known) or those
            raise SpecError(Issue(wrong, str(path), hint=hint))
        return cls._of(draft_file(found or path, check_units))

    @classmethod
    def from_yaml(cls, text: str, file: str = "<text>", folder: Path | None = None) -> Self:
        """Read YAML text; paths in it must stay inside ``folder`` (default: the current one).

        Raises:
            UsageError: If it is not text.
            SpecError: With every issue and its place.
        """
        if not isinstance(text, str):
            raise UsageError(
                f"text: {excerpt(text)} is not text; decode bytes, and read files by "
                "Problem.from_file"
            )
        folder = Path() if folder is None else file_path("folder", folder)
        return cls._of(draft_tree(read_yaml(text, str(file)), folder))

    @classmethod
    def _of(cls, draft: Draft) -> Self:
        problem = cls.__new__(cls)
        problem._fill(draft)
        return problem

    def _fill(self, draft: Draft) -> None:
        for name, value in build(draft).items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "notes", check(self, draft))

    @property
    def time(self) -> Coordinate | None:
        """The coordinate of time; None for a steady problem."""
        return self.pde.time

    @property
    def domain(self) -> Domain:
        """The region of space."""
        return self.pde.domain

    @property
    def space(self) -> tuple[Coordinate, ...]:
        """One to three coordinates of space."""
        return self.pde.space

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """All coordinates, time first."""
        return self.pde.coordinates

    @property
    def unknowns(self) -> tuple[str, ...]:
        """Primary unknowns."""
        return self.pde.unknowns

    @property
    def channels(self) -> tuple[str, ...]:
        """Unknowns and auxiliary ones: the C channels of a field."""
        return self.pde.channels

    @property
    def residuals(self) -> tuple[Expr, ...]:
        """Left minus right of every equation, derivatives carried out; auxiliary ones last."""
        return self.pde.residuals

    @property
    def inputs(self) -> tuple[Input, ...]:
        """In the order of the spec, parameters given by a distribution first."""
        return self.pde.inputs

    @property
    def initial(self) -> Mapping[str, tuple[Expr, ...]]:
        """Unknown to (u0, v0, …), by order in time."""
        return self.pde.initial

    @property
    def boundary(self) -> Mapping[str, tuple[BoundaryCondition, ...]]:
        """Face (``x.min``) to its conditions; periodic axes have no face.

        A shape has those sides of the box around it that hold a piece of its boundary, its holes by
        their names, and ``outline`` for the rest. Of shapes to choose from, those that any has.
        """
        return self.pde.boundary

    @property
    def infer(self) -> Mapping[str, float]:
        """Parameter to be trained, and its starting value."""
        return self.pde.infer

    @cached_property  # an immutable value, computed when it is first asked for
    def capabilities(self) -> Capabilities:
        """What can be done with it (train, solve, infer, learn), and why not the rest."""
        return find_capabilities(self)

    @property
    def visible_inputs(self) -> tuple[Input, ...]:
        """The inputs that the network is shown."""
        return tuple(i for i in self.inputs if not i.hidden)

    @property
    def hidden_inputs(self) -> tuple[Input, ...]:
        """The hidden inputs on which equations, initial data or boundary values depend."""
        stated = self.stated
        return tuple(i for i in self.inputs if i.hidden and any(e.has(i.symbol) for e in stated))

    @property
    def stated(self) -> tuple[Expr, ...]:
        """Residuals of the equations, initial data, and what conditions on the boundary hold."""
        initial = [e for data in self.initial.values() for e in data]
        faces = [e for found in self.boundary.values() for c in found for e in c.values]
        return (*self.residuals, *initial, *faces)

    @property
    def vectors(self) -> dict[str, int]:
        """Visible inputs of an angle, and at how many they are observed.

        No query has an angle that a sensor could be near or far from, so a network takes them as so
        many numbers.
        """
        angles = {a.name for a in self.angles}
        return {i.name: i.sensor_shape[0] for i in self.visible_inputs if angles & {*i.of}}

    def coordinate(self, name: str) -> Coordinate:
        """The coordinate of this name, or the angle.

        Raises:
            KeyError: If there is none.
        """
        return {c.name: c for c in (*self.coordinates, *self.angles)}[name]

    def derivative_text(self, unknown: str, order: int) -> str:
        """A derivative of an unknown in time as a spec writes it, such as ``dt(u)``."""
        time = self.time.name if self.time else "t"
        return f"d{time * order}({unknown})" if order else unknown

    def at(self, values: Mapping[str, float] | None = None) -> Problem:
        """Put numbers in place of the parameters to infer.

        Args:
            values: Of some or all of them; the others keep the values that they start from.

        Returns:
            The same problem with nothing to infer; itself where there was nothing.

        Raises:
            SpecError: If the problem is ill posed at these values.
        """
        if not self.infer:
            return self
        numbers = {**self.infer, **(values or {})}
        texts = {name: ScalarNode(repr(float(value))) for name, value in numbers.items()}
        parameters = {**self.spec.parameters, **texts}
        return Problem._of(draft_spec(replace(self.spec, parameters=parameters, infer=())))

    def with_pde(self, pde: PDE) -> Problem:
        """The same problem with other equations, inputs and conditions, which no spec describes.

        For solvers that change what they solve; nothing is checked, and its hash is its own.
        """
        problem = Problem.__new__(Problem)
        for own in fields(self):
            object.__setattr__(problem, own.name, getattr(self, own.name))
        object.__setattr__(problem, "pde", pde)
        object.__setattr__(problem, "hash", f"{self.hash} {id(pde)}")
        return problem

    def inverse(self) -> Problem:
        """Turn the problem round as ``learn`` says.

        Returns:
            A problem without equations whose inputs are what was unknown and whose unknowns are
            inputs of this one; data of this problem are data of that one too.

        Raises:
            NotSupportedError: If it cannot be turned round, with the reason.
        """
        return Problem._of(draft_spec(inverse_spec(self)))

    def function(self, name: str) -> Expr:
        """What stands for an unknown or an input in expressions, such as ``u(t, x)``.

        Raises:
            KeyError: If there is none.
        """
        return self.pde.function(name)

    def describe(self) -> str:
        """Describe it as ``piop check`` does: equations, class, inputs, conditions and solver.

        >>> print(Problem.from_file("burgers").describe().splitlines()[0])
        burgers: Viscous Burgers' equation on a periodic interval
        """
        return to_text(self)

    def sample(self, n: int, seed: int = 0) -> dict[str, InputFunction]:
        """Draw input functions from their distributions.

        Args:
            n: How many samples.
            seed: The same seed draws the same functions, which are those of ``piop data --seed``.

        Returns:
            A batch of n functions for each input by name, hidden ones included. Each can be
            evaluated at points ``[n or 1, N, d]``, and is an input of :meth:`solve_reference` and
            of :meth:`piop.run.Run.predict`.

        Raises:
            NotSupportedError: For inputs that are known from data alone.
            UsageError: For less than one sample.

        Example:
            ``u0 = problem.sample(4)["u0"]``
        """
        return late_imports.sample(self, n, seed)

    def residual(self) -> Residual:
        """Compile its residual, to train a network of your own in a loop of your own.

        Returns:
            A function of a field (any callable from points ``[B, N, D]``, time first, to values
            ``[B, N, C]``), points, and the values of the input functions there. Its ``.values`` are
            the residuals ``[B, N, E]``, through which gradients flow to the field's parameters.

        Raises:
            NotSupportedError: Without equations, or for a derivative of order five or more.

        Example:
            >>> import torch
            >>> problem = Problem.from_file("burgers")
            >>> residual = problem.residual()
            >>> network = torch.nn.Sequential(
            ...     torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)
            ... )
            >>> points = torch.rand(1, 100, 2)  # t and x
            >>> inputs = residual.evaluate_inputs(problem.sample(1), points)
            >>> loss = residual(network, points, inputs).values.square().mean()
            >>> loss.backward()
        """
        return late_imports.residual(self)

    def solve_reference(self, inputs: Any = None, **settings: Any) -> Solution:
        """Solve for given input functions by the classical method.

        Args:
            inputs: For each visible input its samples, as :meth:`piop.run.Run.predict` takes them:
                a pair (points, values), values on an even grid over the domain, a number for a
                scalar, or a data set. Values on a grid are interpolated between its points, others
                under the distribution of the input. Or functions, as :meth:`sample` gives them;
                nothing for a problem without inputs.
            **settings: Those of `piop.reference.solve_reference`, such as ``times``, ``shape``,
                ``tolerance`` (relative L2), ``device``.

        Returns:
            Values and time derivatives on the grid, with an error estimate for each function.

        Raises:
            NotSupportedError: If no solver covers the problem yet, with the reason.
            DataError: If inputs do not fit.

        Example:
            ``problem.solve_reference({"u0": (x, values)}, times=[0.5, 1.0])``
        """
        return late_imports.solve_reference(self, inputs, **settings)

    def fit(self, **settings: Any) -> Run:
        """Train an operator on this problem; the same as ``piop solve``.

        Args:
            **settings: Those of `piop.run.fit`, such as ``time="5m"``, ``steps=1000``,
                ``backbone="pit"``, ``data=...``, ``out=...``, and any setting of training or of the
                network, such as ``learning_rate=1e-3``.

        Returns:
            The run: ``.predict(...)``, ``.evaluate()`` and its folder.

        Raises:
            NotSupportedError: If this version cannot run the problem yet, with the reason.
        """
        return late_imports.fit(self, **settings)

    def to_yaml(self) -> str:
        """YAML text of the same problem, with the same hash."""
        return spec_to_yaml(self.spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Problem) and self.hash == other.hash

    def __hash__(self) -> int:
        return hash(self.hash)

    def __repr__(self) -> str:
        return f"Problem({self.name}: {', '.join(text.text for text in self.spec.equations)})"

    def _repr_html_(self) -> str:
        """Typeset equations and conditions, as notebooks show them."""
        return to_html(self)
