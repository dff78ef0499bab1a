"""Which computations are attention, however they are written."""

import pytest
import timm
import torch
from torch import Tensor, nn

import vitscope as vs
from tests.invariants import check_all, relative_error
from tests.registry import NoInitialisation, build_on_meta, randomise_zeros

HEADS, WIDTH = 3, 12


def exponentials(q, k, v, mix):
    e = (q @ k.mT).exp()
    return e / e.sum(-1, keepdim=True) @ v


def stable_exponentials(q, k, v, mix):
    scores = q @ k.mT
    e = torch.exp(scores - scores.amax(-1, keepdim=True))
    return (e / (e.sum(-1, keepdim=True) + 1e-9)) @ v


def divided_afterwards(q, k, v, mix):
    e = (q @ k.mT).exp()
    return e @ v / e.sum(-1, keepdim=True)


def log_softmax(q, k, v, mix):
    return (q @ k.mT).log_softmax(-1).exp() @ v


def log_sum(q, k, v, mix):
    scores = q @ k.mT
    return (scores - scores.logsumexp(-1, keepdim=True)).exp() @ v


def heads_last(q, k, v, mix):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    weights = torch.einsum("bihd,bjhd->bijh", q, k).softmax(2)
    return torch.einsum("bijh,bjhd->bihd", weights, v).transpose(1, 2)


def values_first(q, k, v, mix):
    return (v.mT @ (q @ k.mT).softmax(-1).mT).mT


def columns(q, k, v, mix):
    return (v.mT @ (k @ q.mT).softmax(-2)).mT


PLAIN = [
    exponentials, stable_exponentials, divided_afterwards, log_softmax, log_sum, heads_last, values_first, columns,
]  # fmt: skip


def talking(q, k, v, mix):
    before, after = mix
    scores = torch.einsum("bhij,hg->bgij", q @ k.mT, before)
    return torch.einsum("bhij,hg->bgij", scores.softmax(-1), after) @ v


def shared_keys(q, k, v, mix):
    weights = torch.einsum("bhid,bjd->bhij", q, k[:, 0]).softmax(-1)
    return torch.einsum("bhij,bjd->bhid", weights, v[:, 0])


def linear(q, k, v, mix):
    return q.relu() @ (k.relu().mT @ v)


class Attention(nn.Module):
    def __init__(self, how) -> None:
        super().__init__()
        self.how = how
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mix = nn.Parameter(torch.randn(2, HEADS, HEADS))

    def heads(self, x: Tensor) -> Tensor:
        return self.qkv(x).unflatten(2, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)

    def forward(self, x):
        found = self.how(*self.heads(x), self.mix)
        return self.proj(found.transpose(1, 2).flatten(2))


def multiplied_and_summed(scores, k):
    return (k * scores.softmax(1)).sum(1, keepdim=True)


def summed_without_axis(scores, k):
    return torch.sum(k * scores.softmax(1), 1).unsqueeze(1)


def as_a_product(scores, k):
    return scores.softmax(1).mT @ k


class Separable(nn.Module):
    """One context for all points, which multiplies the values."""

    def __init__(self, how, gate: nn.Module | None = None) -> None:
        super().__init__()
        self.how, self.gate = how, gate or nn.Identity()
        self.qkv, self.proj = nn.Linear(WIDTH, 1 + 2 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        scores, k, v = self.qkv(x).split([1, WIDTH, WIDTH], -1)
        return self.proj(v.relu() * self.gate(self.how(scores, k)))


class Tokens(nn.Module):
    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.stem, self.attention = nn.Conv2d(3, WIDTH, 4, 4), attention
        self.mlp = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))

    def forward(self, x):
        x = self.stem(x).flatten(2).mT
        x = x + self.attention(x)
        return (x + self.mlp(x)).mean(1)


def examined(attention: nn.Module):
    torch.manual_seed(0)
    model, images = Tokens(attention).eval(), torch.randn(3, 3, 16, 24)
    parts = vs.anatomy(model, (3, 16, 24))
    assert [u.kind for u in parts][2] == "mlp"
    check_all(model, parts, images)
    with torch.no_grad(), vs.Tap(model, parts, attention=True) as tap:
        model(images)
        tokens = model.stem(images).flatten(2).mT
    return parts[1], tap.attention.get(parts[1].name, [None])[0], tokens


@pytest.mark.parametrize("how", PLAIN, ids=lambda how: how.__name__)
def test_every_way_to_write_a_softmax_is_attention(how):
    attention = Attention(how)
    unit, seen, tokens = examined(attention)
    assert (unit.kind, unit.heads, unit.attention.pattern) == ("msa", HEADS, "global")
    attention.double()
    q, k, v = attention.heads(tokens.double())
    wanted = (q @ k.mT).softmax(-1)
    assert relative_error(seen.probabilities, wanted) < 1e-5
    normalised = seen.output / (seen.weights.sum(-1, keepdim=True) if how is divided_afterwards else 1)
    assert relative_error(normalised, wanted @ v) < 1e-5
    assert torch.equal(seen.places.queries, torch.arange(24)[None])


@pytest.mark.parametrize("how", [talking, shared_keys], ids=lambda how: how.__name__)
def test_heads_that_talk_or_share_keys_are_attention(how):
    attention = Attention(how)
    unit, seen, tokens = examined(attention)
    assert (unit.kind, unit.heads, unit.attention.pattern) == ("msa", HEADS, "global")
    attention.double()
    q, k, _ = attention.heads(tokens.double())
    scores = q @ (k if how is talking else k[:, :1]).mT
    if how is talking:
        scores = torch.einsum("bhij,hg->bgij", scores, attention.mix[0])
    assert relative_error(seen.probabilities, scores.softmax(-1)) < 1e-5
    if how is talking:  # what multiplies the values is mixed once more
        wanted = torch.einsum("bhij,hg->bgij", scores.softmax(-1), attention.mix[1])
        assert relative_error(seen.weights, wanted) < 1e-5


@pytest.mark.parametrize("how", [multiplied_and_summed, summed_without_axis, as_a_product])
def test_a_context_that_multiplies_the_values_is_attention_with_one_query(how):
    attention = Separable(how)
    unit, seen, tokens = examined(attention)
    assert (unit.kind, unit.attention.pattern, unit.attention.queries, unit.attention.keys) == (
        "msa",
        "context",
        1,
        24,
    )
    attention.double()
    scores, k, _ = attention.qkv(tokens.double()).split([1, WIDTH, WIDTH], -1)
    assert relative_error(seen.weights[:, 0], scores.softmax(1).mT) < 1e-5
    assert relative_error(seen.output[:, 0], scores.softmax(1).mT @ k) < 1e-5
    assert seen.places.keys.tolist() == [list(range(24))]
    assert seen.places.queries.tolist() == [[-1]]


def test_what_layers_make_of_a_pooled_vector_is_no_attention():
    assert examined(Separable(multiplied_and_summed, nn.Linear(WIDTH, WIDTH)))[0].kind == "mlp"
    assert examined(Attention(linear))[0].kind == "mixer"
    branches = vs.anatomy(build_on_meta("resnest14d"))  # a softmax over branches, multiplied and summed
    assert not branches.of_kind("msa")


def test_mobilevit_v2_attends():
    torch.manual_seed(0)
    model = timm.create_model("mobilevitv2_050", num_classes=3).eval()
    randomise_zeros(model)
    parts = vs.anatomy(model, (3, 64, 64))
    assert {u.kind for u in parts if u.name.endswith(".attn")} == {"msa"}
    assert {u.attention.keys for u in parts.of_kind("msa")} == {
        16,
        4,
        1,
    }  # one of four points, window by window
    check_all(model, parts, torch.randn(2, 3, 64, 64))
    result = vs.exams.attention(model, (torch.randn(4, 3, 64, 64), torch.zeros(4, dtype=torch.long)))
    assert {unit.name for unit in result.units} == {u.name for u in parts.of_kind("msa")}
    table = result.table()
    entropy = table[(table.quantity == "entropy") & table["head"].isna()].value
    assert (entropy[:2] > 0).all()


def test_recurrence_along_positions_is_a_mixer():
    with torch.device("meta"), NoInitialisation():
        model = timm.create_model("sequencer2d_s", layers=(1, 1, 1, 1), num_classes=3).eval()
    parts = vs.anatomy(model, (3, 56, 56))
    assert {u.name.rpartition(".")[2]: u.kind for u in parts if u.residual} == {
        "rnn_tokens": "mixer",
        "mlp_channels": "mlp",
    }
