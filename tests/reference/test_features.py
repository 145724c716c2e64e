"""Data are seen wherever they vary, however narrow: pulses, spikes, interfaces, kinks."""

import math
import re

import pytest
import sympy
import torch

from piop.problem import Problem
from piop.reference.features import Features, data_of, initial_data_of
from piop.reference.input_values import Sources
from piop.sampling import sample_inputs
from piop.sampling.random import Draws
from piop.sampling.stored_functions import interpolate

PULSE = "exp(-((t - c)/w)**2)"
SCALARS = {
    "c": {"law": "uniform", "low": 0.05, "high": 0.95},
    "w": {"law": "log_uniform", "low": 1e-5, "high": 0.03},
}


def features(source, count=8, space=("x",), initial="0", wall="0"):
    """Features of a heat equation, and the centre and width of each sample."""
    words = re.findall(r"\b[cw]\b", f"{source} {initial} {wall}")
    problem = Problem(
        name="case",
        time={"t": [0, 1]},
        space={axis: [0, 1] for axis in space},
        unknowns=["u"],
        inputs={name: law for name, law in SCALARS.items() if name in words},
        equations=[f"dt(u) = lap(u) + {source}"],
        initial={"u": initial},
        boundary={
            f"{a}.{end}": {"dirichlet": {"u": wall}} for a in space for end in ("min", "max")
        },
    )
    functions = sample_inputs(problem, Draws(0, 0, torch.arange(count)))
    sources = Sources(problem, functions, torch.device("cpu"))
    numbers = [f.on_grid(()).tolist() for f in functions.values()]
    return Features(sources), list(zip(*numbers, strict=True))


@pytest.mark.parametrize("source", [f"{PULSE}*sin(pi*x)", f"u*{PULSE}", f"u**2*x + {PULSE}*x"])
def test_steps_are_short_at_a_pulse_and_long_elsewhere(source):
    found, drawn = features(source)
    for sample, (c, w) in enumerate(drawn):
        longest = found.longest_step([sample])
        assert longest(c - w, c + w) < 1.5 * w
        if w < 1e-3:
            assert longest(0.0, c / 2) > 0.04 * c
    assert any(w < 1e-3 for _, w in drawn)


def test_a_pulse_on_a_wall_and_one_in_a_coefficient_are_seen():
    found, drawn = features("0", wall=PULSE)
    assert found.longest_step([0])(0.0, 1.0) < 1.5 * drawn[0][1]
    found, drawn = features(f"(1 + {PULSE})*dx(u)")
    assert found.longest_step([0])(0.0, 1.0) < 1.5 * drawn[0][1]


def test_data_are_largest_at_the_peak_of_a_pulse():
    found, drawn = features(PULSE)
    for sample, (c, w) in enumerate(drawn):
        (time,) = found.peak_times([sample])
        assert time == pytest.approx(c, abs=w)


def test_a_spike_between_the_points_is_unseen_and_one_upon_many_is_not():
    found, drawn = features("exp(-((x - c)/w)**2)")
    nodes = torch.linspace(0, 1, 33, dtype=torch.float64)
    for (_, w), unseen in zip(drawn, found.unseen({"x": nodes}).tolist(), strict=True):
        if w < 1e-3:
            assert unseen > 0.5
        if w > 0.02:
            assert unseen < 1e-6
    fine = torch.linspace(0, 1, 2**20 + 1, dtype=torch.float64)
    assert float(found.unseen({"x": fine}).max()) < 1e-6


@pytest.mark.parametrize(
    ("source", "height"),
    [
        ("sqrt(1 + sin(2*pi*x)/2 + 1e-3*exp(-((x - c)/w)**2))", 4e-4),
        ("sqrt(1 + sin(2*pi*x)/2 + 0.1*exp(-((x - c)/w)**2))", 4e-2),
        ("1 + sin(2*pi*x)/2 + 1e-7*exp(-((x - c)/w)**2)", 1e-7),
        ("(1 + 1e-7*exp(-((x - c)/w)**2))*(2 + sin(2*pi*x))/3", 3e-8),
    ],
)
def test_a_low_spike_on_a_wave_is_unseen_by_as_much_as_it_holds(source, height):
    found, drawn = features(source, count=60)
    nodes = torch.linspace(0, 1, 65, dtype=torch.float64)
    unseen = found.unseen({"x": nodes}).tolist()
    hidden = [i for i, (c, w) in enumerate(drawn) if float((nodes - c).abs().min()) > 2.5 * w]
    assert len(hidden) > 20
    for i in hidden:
        assert unseen[i] > height * drawn[i][1] * math.sqrt(math.pi)


def test_a_spike_of_the_initial_data_is_unseen_too():
    found, _ = features("0", initial="where(abs(x - c) < 1e-5, 1, 0)")
    nodes = torch.linspace(0, 1, 33, dtype=torch.float64)
    assert float(found.unseen({"x": nodes}).min()) > 0.5


def test_a_spike_of_the_initial_data_may_reach_a_point_of_the_output():
    """Carried there it is as large as the part of the domain that the point stands for."""
    found, drawn = features("0", initial="where(abs(x - c) < w, 1, 0) + 10")
    nodes = torch.linspace(0, 1, 33, dtype=torch.float64)
    hidden = [i for i, (c, w) in enumerate(drawn) if float((nodes - c).abs().min()) > w]
    unseen = found.unseen({"x": nodes}, part=1 / 64)[hidden]
    assert float(unseen.min()) >= 0.99 / (10 * 8)
    assert float(found.unseen({"x": nodes})[hidden].min()) < 0.1 / (10 * 8)


def test_a_narrow_ring_in_the_plane_is_found():
    ring = "exp(-((sqrt((x - 0.5)**2 + (y - c)**2) - 0.2)/(w + 1e-3))**2)"
    found, drawn = features(ring, count=2, space=("x", "y"))
    nodes = torch.linspace(0, 1, 17, dtype=torch.float64)
    unseen = found.unseen({"x": nodes, "y": nodes})
    for (_, w), own in zip(drawn, unseen.tolist(), strict=True):
        assert own > (0.5 if w < 3e-3 else 0.0)


def test_a_peak_far_higher_than_all_that_corners_show_is_found():
    peak = "exp(-((x - c)**2 + (y - sin(50*c)**2)**2)*1e10)*1e10"
    found, _ = features(f"sqrt(1 + {peak})", count=40, space=("x", "y"))
    nodes = torch.linspace(0, 1, 17, dtype=torch.float64)
    assert float(found.unseen({"x": nodes, "y": nodes}).min()) > 2 * math.pi * 1e-5  # its integral


def test_smooth_data_of_four_coordinates_are_seen_though_boxes_do_not_resolve_them():
    wave = "exp(-t)*cos(2*pi*x)*sin(2*pi*y)*cos(4*pi*z)"
    found, _ = features(f"(1 + {wave})**2", count=1, space=("x", "y", "z"))
    nodes = torch.arange(24, dtype=torch.float64) / 24
    assert found.unseen({"x": nodes, "y": nodes, "z": nodes}).tolist() == [0.0]


@pytest.mark.parametrize("part", ["sin(pi*x)*exp(-t)", "1 + x**2 - 3*x*t", "x*(1 - x)*cos(2*t)"])
def test_smooth_data_are_seen_by_a_coarse_grid_and_long_steps(part):
    found, _ = features(part, count=1)
    nodes = torch.linspace(0, 1, 17, dtype=torch.float64)
    assert found.unseen({"x": nodes}).tolist() == [0.0]
    assert found.longest_step([0])(0.0, 1.0) > 0.1


def test_a_long_smooth_expression_takes_few_boxes():
    """Its enclosure by slopes keeps it from being halved for its length alone."""
    terms = " + ".join(f"sin({k}*x + {k}*t)*exp(-x*t/{k})*(x + {k})" for k in range(1, 6))
    found, _ = features(f"({terms})*x**2 - ({terms})*t", count=1)
    (_, boxes), *_ = found.found
    assert len(boxes) < 50_000


def test_products_that_would_give_thousands_of_terms_are_compared_as_they_are():
    """Multiplied out, this source has 15,876 terms; a law's source of 54 s was all in that."""
    found, _ = features("x", count=1)
    x = sympy.Symbol("x", real=True)
    sums = [1 + sympy.sin(k * x) + sympy.cos(k * x) + sympy.exp(k * x) + x for k in (1, 2)]
    product = sympy.Mul(*(s**5 for s in sums))
    cells, means = found.means(product, [0], [torch.linspace(0, 1, 17, dtype=torch.float64)])
    assert len(means) == len(cells[0]) == 0
    assert found._written_out(-product) == -found._written_out(product) == -product


def test_an_interface_is_found_to_ten_digits():
    found, drawn = features("where(x < c, 1, 3)")
    edges = torch.linspace(0, 1, 65, dtype=torch.float64)
    samples, cells = found.rough_cells(range(8), [edges])
    assert samples.tolist() == list(range(8))
    assert cells.tolist() == [math.floor(64 * c) for (c,) in drawn]
    rows, cuts = found.cuts(range(8))
    for sample, (c,) in enumerate(drawn):
        assert float((cuts[rows == sample] - c).abs().min()) < 1e-9


def test_what_is_drawn_and_what_holds_unknowns_are_no_data_to_look_at():
    problem = Problem.from_file("burgers")
    assert data_of(problem) == initial_data_of(problem) == ()


def from_points(values, points, of=("x",), domain=None):
    """Features of a steady problem in the plane with one input between points."""
    problem = Problem(
        name="case",
        space={"x": [0, 1], "y": [0, 1]},
        unknowns=["u"],
        inputs={"f": {"of": [*of], "law": "from_file", "path": "none"}},
        equations=["-lap(u) = f"],
        boundary={name: {"dirichlet": {"u": 0}} for name in (["rest"] if domain else "xy")},
        **({"domain": domain} if domain else {}),
    )
    axes = [next(c for c in problem.space if c.name == name) for name in of]
    function = interpolate("here", values, points, axes)
    sources = Sources(problem, {"f": function}, torch.device("cpu"))
    return (
        Features(sources, outline=problem.domain.outline, cell=0.1) if domain else Features(sources)
    )


CENTRES = torch.tensor([0.1234, 0.5101, 0.7777], dtype=torch.float64)[:, None]


def test_a_peak_between_points_of_a_file_is_unseen_by_coarser_grids():
    x = torch.linspace(0, 1, 2001, dtype=torch.float64)
    found = from_points(torch.exp(-(((x - CENTRES) / 1e-3) ** 2)), [x.numpy()])
    for count, least, most in ((33, 0.5, 100), (2001, 0, 1e-6)):
        nodes = torch.linspace(0, 1, count, dtype=torch.float64)
        unseen = found.unseen({"x": nodes})
        assert least <= float(unseen.min()) <= float(unseen.max()) <= most
    (_, boxes) = found.found[0]
    assert len(boxes) < 600


def test_smooth_values_at_many_points_ask_for_no_finer_grid():
    x = torch.linspace(0, 1, 2001, dtype=torch.float64)
    found = from_points(torch.sin(5 * (x - CENTRES)), [x.numpy()])
    nodes = torch.linspace(0, 1, 33, dtype=torch.float64)
    assert float(found.unseen({"x": nodes}).max()) < 1e-6


def test_a_spline_that_oscillates_between_points_beside_a_spike_is_followed_there():
    x = torch.linspace(0, 1, 2001, dtype=torch.float64)
    spike = torch.zeros(1, 2001, dtype=torch.float64)
    spike[0, 800] = 1
    ((_, boxes),) = from_points(spike, [x.numpy()]).found
    cells = boxes.take(boxes.size[:, 0] < 6e-4)
    assert len(cells) >= 10  # a spike of two cells; each further swing is 0.27 of the last
    assert bool((cells.centre[:, 0] - 0.4).abs().max() > 2e-3)


def test_steps_over_values_between_points_are_halved_on_demand_and_others_are_not():
    problem = Problem(
        name="case",
        time={"t": [0, 1]},
        unknowns=["u"],
        inputs={"f": {"of": ["t"], "law": "from_file", "path": "none"}},
        equations=["dt(u) = f"],
        initial={"u": 0},
    )
    points = torch.linspace(0, 1, 501, dtype=torch.float64)
    spike = torch.exp(-(((points - 0.7) / 0.002) ** 2))[None]
    functions = {"f": interpolate("here", spike, [points.numpy()], [problem.time])}
    stored = Features(Sources(problem, functions, torch.device("cpu")))
    written, ((centre, _),) = features(PULSE, 1)
    for found, at, ratio in ((stored, 0.7, 4), (written, centre, 1)):
        before, after = (found.longest_step([0], halvings) for halvings in (0, 2))
        assert after(at, at) == pytest.approx(before(at, at) / ratio)
        assert before(at, at) < 0.1


@pytest.mark.parametrize("of", ["xy", "yx"])
def test_values_along_both_axes_are_resolved_along_each(of):
    x = torch.linspace(0, 1, 129, dtype=torch.float64)
    y = torch.linspace(0, 1, 9, dtype=torch.float64)
    narrow = torch.exp(-(((x - CENTRES[:2]) / 0.01) ** 2))
    values = narrow[:, :, None] * (1 + y)
    points = [x.numpy(), y.numpy()]
    if of == "yx":
        values, points = values.mT, points[::-1]
    found = from_points(values, points, of)
    fine, coarse = (torch.linspace(0, 1, n, dtype=torch.float64) for n in (129, 9))
    assert float(found.unseen({"x": fine, "y": coarse}).max()) < 1e-6
    assert float(found.unseen({"x": coarse, "y": fine}).min()) > 0.5
    assert (found.found[0][0].axes[0].name, len(found.found)) == ("x", 1)


def test_cells_are_joined_up_to_what_a_parabola_hides_between_corners():
    """Corners of a box of length s show x² but for s²/4, a ten-thousandth of its largest value."""
    for cells, joined in ((192, 2), (208, 4)):  # four are 0.0208 long, or 0.0192
        x = torch.linspace(0, 1, cells + 1, dtype=torch.float64)
        ((_, boxes),) = from_points(x.square()[None], [x.numpy()]).found
        assert float(boxes.size.max()) == pytest.approx(joined / cells)


@pytest.mark.parametrize(("own", "other"), ["xy", "yx"])
def test_values_along_one_axis_of_a_shape_are_resolved_along_that_axis(own, other):
    points = torch.linspace(0, 1, 129, dtype=torch.float64)
    narrow = torch.exp(-(((points - CENTRES[:2]) / 0.01) ** 2))
    found = from_points(narrow, [points.numpy()], own, domain={"disk": [0.5, 0.5, 0.5]})
    fine, coarse = (torch.linspace(0, 1, n, dtype=torch.float64) for n in (129, 9))
    assert float(found.unseen({own: fine, other: coarse}).max()) < 1e-6
    assert float(found.unseen({own: coarse, other: fine}).min()) > 0.5


def test_boxes_of_values_between_points_cover_the_axis_once():
    points = torch.tensor([0.0, 0.15, 0.4, 0.41, 0.42, 0.7, 1.0], dtype=torch.float64)
    values = torch.where(points == 0.41, 1.0, 0.1 * points).double()[None]
    (((own, boxes),)) = from_points(values, [points.numpy()]).found
    low, order = boxes.low[:, 0].sort()
    high = boxes.high[order, 0]
    assert (float(low[0]), float(high[-1])) == (0.0, 1.0)
    torch.testing.assert_close(low[1:], high[:-1], atol=0, rtol=0)
    at_peak = (low >= 0.4) & (high <= 0.42)
    assert int(at_peak.sum()) == 2
    assert float(boxes.reach[order][at_peak].max()) < 0.02
    assert own.smooth_inside


def test_a_diffusion_that_vanishes_at_the_start_is_no_resistance():
    problem = Problem(
        name="thaw",
        time={"t": [0, 0.5]},
        space={"x": [0, 1]},
        unknowns=["u"],
        equations=["dt(u) = 0.02*sin(pi*t)*dxx(u)"],
        initial={"u": "cos(2*pi*x)"},
        boundary={"x": "periodic"},
        save={"t": 3, "x": 16},
    )
    solved = problem.solve_reference({})
    exponent = -0.02 * 4 * math.pi * (1 - math.cos(math.pi * 0.5))  # (2π)² ∫ sin(πt) dt
    x = solved.axes[0]
    truth = math.exp(exponent) * torch.cos(2 * math.pi * x)
    torch.testing.assert_close(solved.values["u"][0, -1], truth, rtol=0, atol=1e-6)
    assert bool(solved.accepted.all())
