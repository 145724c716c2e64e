"""The counter-based generator: published vectors, independence of the batch, moments."""

import pytest
import torch
from scipy import stats

from piop.errors import UsageError
from piop.sampling.random import DATA, HELD_OUT, Draws, philox

# Random123 1.14, tests/kat_vectors, lines "philox4x32 10": counter, key, result.
KNOWN_ANSWERS = [
    ([0] * 4, (0, 0), [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    (
        [0xFFFFFFFF] * 4,
        (0xFFFFFFFF, 0xFFFFFFFF),
        [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD],
    ),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        (0xA4093822, 0x299F31D0),
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


def make(index, seed=3, step=5):
    return Draws(seed, step, torch.as_tensor(index))


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_philox_gives_the_published_words(counter, key, expected):
    words = philox([torch.tensor(c) for c in counter], key)
    assert [int(w) for w in words] == expected


@pytest.mark.parametrize("kind", ["uniform", "normal"])
def test_a_sample_is_the_same_to_the_last_bit_in_any_batch(kind):
    whole = getattr(make(range(1000)), kind)("lane", 7, 3)
    part = getattr(make([0, 993, 17]), kind)("lane", 7, 3)
    assert torch.equal(whole[[0, 993, 17]], part)


def test_more_numbers_begin_with_the_same_ones():
    assert torch.equal(make([2]).normal("a", 9)[:, :4], make([2]).normal("a", 4))


def test_seed_step_lane_and_sample_all_change_the_numbers():
    base = make([1]).uniform("a", 4)
    others = [
        make([1], seed=4).uniform("a", 4),
        make([1], step=6).uniform("a", 4),
        make([1]).uniform("b", 4),
        make([2]).uniform("a", 4),
        make([1 + 2**32]).uniform("a", 4),
    ]
    assert all(not torch.equal(base, other) for other in others)


def test_asking_twice_gives_the_same_numbers():
    assert torch.equal(make([1]).uniform("a", 4), make([1]).uniform("a", 4))


def test_uniform_numbers_are_uniform_and_never_reach_the_ends():
    u = make(range(500)).uniform("a", 200).flatten()
    assert u.min() > 0 and u.max() < 1
    assert stats.kstest(u.numpy(), "uniform").pvalue > 1e-3


def test_the_largest_word_still_gives_less_than_one(monkeypatch):
    monkeypatch.setattr(
        "piop.sampling.random.philox", lambda counter, key: (counter[0] * 0 + 0xFFFFFFFF,) * 4
    )
    assert make([0]).uniform("a", 2).max() < 1


def test_normal_numbers_are_normal_and_uncorrelated():
    z = make(range(500)).normal("a", 200)
    assert stats.kstest(z.flatten().numpy(), "norm").pvalue > 1e-3
    n = z[:, 1:].numel()
    assert abs((z[:, 1:] * z[:, :-1]).mean()) < 5 / n**0.5  # neighbours, five sigma
    assert abs((z[1:] * z[:-1]).mean()) < 5 / n**0.5  # samples


def test_integers_reach_both_ends_equally_often():
    k = make(range(3000)).integers("a", -1, 2, 10)
    counts = torch.bincount(k.flatten() + 1)
    assert counts.shape == (4,)
    assert stats.chisquare(counts.numpy()).pvalue > 1e-3


def test_a_permutation_holds_every_number_once():
    order = make(range(50)).permutation("a", 11, 2)
    assert torch.equal(order.sort(-1).values, torch.arange(11).expand(50, 2, 11))
    assert len({tuple(o.tolist()) for o in order.flatten(0, 1)}) == 100


def test_no_shape_gives_one_number_per_sample():
    assert make(range(5)).normal("a").shape == (5,)
    assert make(range(5)).uniform("a").shape == (5,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": -1}, r"seed: -1 is not in \[0, 2\*\*32\)"),
        ({"step": 2**32}, "step: 4294967296 is not in"),
        ({"index": torch.zeros(2, 2, dtype=torch.int64)}, r"index: expected int64 \[B\]"),
        ({"index": torch.zeros(2)}, r"expected int64 \[B\], got torch.float32"),
        ({"index": torch.tensor([0, -3])}, "index: -3 is negative"),
    ],
)
def test_numbers_out_of_range_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        Draws(**{"seed": 0, "step": 0, "index": torch.arange(2), **change})


def numbers(draws):
    return draws.uniform("input/u0", 8)


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1])
def test_sets_for_different_purposes_share_no_numbers(seed):
    training = numbers(Draws(seed, 0, torch.arange(8)))
    data = numbers(Draws.of(DATA, seed, range(8)))
    held_out = numbers(Draws.of(HELD_OUT, seed, range(8)))
    golden = numbers(Draws.of(DATA, (seed + 0x9E3779B9) % 2**32, range(8)))
    sets = [training, data, held_out, golden]
    assert len({round(float(v), 12) for found in sets for v in found.flatten()}) == 4 * 64


def test_a_sample_of_a_set_is_the_same_in_any_part_of_it():
    whole = numbers(Draws.of(DATA, 3, range(10)))
    assert torch.equal(numbers(Draws.of(DATA, 3, range(4, 7))), whole[4:7])


def test_the_first_scheme_draws_what_it_drew():
    plain = numbers(Draws(5, 0, torch.arange(4)))
    assert torch.equal(numbers(Draws.of(DATA, 5, range(4), scheme=1)), plain)
    shifted = numbers(Draws((5 + 0x9E3779B9) % 2**32, 0, torch.arange(4)))
    assert torch.equal(numbers(Draws.of(HELD_OUT, 5, range(4), scheme=1)), shifted)
    with pytest.raises(UsageError, match="draws: 3 is not one of 1, 2"):
        Draws.of(DATA, 5, range(4), scheme=3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_makes_the_same_numbers():
    here = Draws(3, 5, torch.arange(100))
    there = Draws(3, 5, torch.arange(100, device="cuda"))
    assert torch.equal(there.uniform("a", 33).cpu(), here.uniform("a", 33))
    torch.testing.assert_close(there.normal("a", 33).cpu(), here.normal("a", 33))
