"""Equality with other implementations: TRL 1.16's losses and torchrl's advantages, on random tensors.

Set ``LIT_RL_PEERS_VENV`` to a folder: a virtual environment is made there on first use, with TRL and torchrl
beside the torch of this one, and used again afterwards. Their code computes, ours must agree to 1e-6.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from lit_rl.math import aggregate, kl_estimate, loss_denominator
from lit_rl.math.advantages import GAE
from lit_rl.math.kl import KLKind
from lit_rl.math.losses import CISPO, Clipped, Tokens
from lit_rl.math.masking import AggregateMode

pytestmark = pytest.mark.peers

HERE = Path(__file__).parent
CONSTRAINTS = HERE.parent.parent / "constraints.txt"
MAX_TOKENS = 11
CLIP = {"epsilon_low": 0.2, "epsilon_high": 0.2}

TRL_CASES: dict[str, dict[str, Any]] = {
    "grpo": {"loss_type": "grpo", **CLIP},
    "grpo_k3": {"loss_type": "grpo", **CLIP, "beta": 0.1},
    "grpo_k3_with_ratio": {"loss_type": "grpo", **CLIP, "beta": 0.1, "use_bias_correction_kl": True},
    "grpo_two_sided": {"loss_type": "grpo", **CLIP, "delta": 1.5},
    "dapo": {"loss_type": "dapo", "epsilon_low": 0.2, "epsilon_high": 0.28},
    "dr_grpo": {"loss_type": "dr_grpo", **CLIP, "max_completion_length": MAX_TOKENS},
    "gspo": {"loss_type": "grpo", "level": "sequence", "epsilon_low": 0.05, "epsilon_high": 0.07},
    "cispo": {"loss_type": "cispo", "epsilon_high": 1.4},
}
GAE_CASES = {"gae": (0.9, 0.95), "gae_undiscounted": (1.0, 1.0), "gae_one_step": (0.7, 0.0)}


@pytest.fixture(scope="session")
def peers_python() -> Path:
    folder = os.environ.get("LIT_RL_PEERS_VENV")
    if not folder:
        pytest.skip("TRL and torchrl are not here: set LIT_RL_PEERS_VENV to a folder they may be installed in")
    python = Path(folder) / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        ask = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
        site = subprocess.run(ask, check=True, capture_output=True, text=True).stdout.strip()
        # Borrow this environment's torch, so that both sides round alike and nothing large is loaded twice.
        (Path(site) / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    imports = [str(python), "-c", "import trl, torchrl"]
    if subprocess.run(imports, capture_output=True).returncode:
        install = [str(python), "-m", "pip", "install", "-q", "--constraint", str(CONSTRAINTS)]
        subprocess.run([*install, "trl==1.16.0", "torchrl"], check=True)
    return python


@pytest.fixture(scope="session")
def tensors() -> dict[str, Tensor]:
    """Six completions of unequal length, with ratios inside and outside the clip range."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    logprobs = -normal(6, 9).abs() - 0.1
    return {
        "logprobs": logprobs,
        "old_logprobs": logprobs + 0.3 * normal(6, 9),
        "ref_logprobs": logprobs + 0.3 * normal(6, 9),
        "advantages": normal(6),
        "mask": torch.arange(9) < torch.tensor([9, 1, 5, 3, 7, 2])[:, None],
    }


@pytest.fixture(scope="session")
def gae_tensors(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rewards and values with bootstrap values after rows 0 and 2, which were truncated."""
    generator = torch.Generator().manual_seed(1)
    token_rewards, values = torch.randn(2, 6, 9, generator=generator, dtype=torch.float64)
    mask = tensors["mask"]
    last = mask & ~torch.nn.functional.pad(mask[:, 1:], (0, 1))
    tails = torch.tensor([0.5, 0.0, -1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    next_values = torch.where(last, tails[:, None], torch.nn.functional.pad(values[:, 1:], (0, 1)))
    found = {"token_rewards": token_rewards, "values": values, "next_values": next_values, "tails": tails}
    return found | {"done": last, "terminated": last & (tails == 0)[:, None]}


@pytest.fixture(scope="session")
def answers(
    peers_python: Path,
    tensors: dict[str, Tensor],
    gae_tensors: dict[str, Tensor],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, tuple[Tensor, Tensor]]:
    """Results of the peers on the tensors: loss and gradient, or advantages and value targets."""
    folder = tmp_path_factory.mktemp("peers")
    given = {"tensors": tensors, "gae": gae_tensors, "trl": TRL_CASES, "torchrl": GAE_CASES}
    torch.save(given, folder / "inputs.pt")
    command = [str(peers_python), str(HERE / "peer_losses.py")]
    subprocess.run([*command, str(folder / "inputs.pt"), str(folder / "outputs.pt")], check=True, timeout=300)
    outputs: dict[str, tuple[Tensor, Tensor]] = torch.load(folder / "outputs.pt")
    return outputs


def our_token_loss(case: dict[str, Any], logprobs: Tensor, given: dict[str, Tensor]) -> Tensor:
    old, mask, advantages = given["old_logprobs"], given["mask"], given["advantages"][:, None]
    tokens = Tokens(logprobs, old, old, advantages, mask, case.get("level", "token"))
    if case["loss_type"] == "cispo":  # TRL's bound is the weight itself, ours its distance from 1
        return CISPO(clip_high=case["epsilon_high"] - 1).token_losses(tokens)
    token_loss = Clipped(case["epsilon_low"], case["epsilon_high"], case.get("delta")).token_losses(tokens)
    kind: KLKind = "k3_weighted" if case.get("use_bias_correction_kl") else "k3"
    kl = kl_estimate(logprobs, given["ref_logprobs"], kind=kind, old_logprobs=old)
    return token_loss + case.get("beta", 0.0) * kl


@pytest.mark.parametrize("name", TRL_CASES)
def test_loss_and_gradient_equal_those_of_trl(
    name: str, answers: dict[str, tuple[Tensor, Tensor]], tensors: dict[str, Tensor]
) -> None:
    """Items 1, 38, 41, 42 and 43 against another implementation."""
    case, mask = TRL_CASES[name], tensors["mask"]
    modes: dict[str, AggregateMode] = {"grpo": "sequence_mean", "dr_grpo": "sequence_sum_constant"}
    mode = modes.get(case["loss_type"], "token_mean")
    constant = MAX_TOKENS if mode == "sequence_sum_constant" else None
    logprobs = tensors["logprobs"].clone().requires_grad_()
    denominator = loss_denominator(mask, mode, constant_tokens=constant)
    loss = aggregate(our_token_loss(case, logprobs, tensors), mask, mode=mode, denominator=denominator)
    loss.backward()
    want_loss, want_gradient = answers[name]
    torch.testing.assert_close(loss.detach(), want_loss, rtol=0, atol=1e-6)
    torch.testing.assert_close(logprobs.grad, want_gradient, rtol=0, atol=1e-6)
    assert want_gradient.abs().max() > 1e-3


@pytest.mark.parametrize("name", GAE_CASES)
def test_advantages_and_returns_equal_those_of_torchrl(
    name: str,
    answers: dict[str, tuple[Tensor, Tensor]],
    tensors: dict[str, Tensor],
    gae_tensors: dict[str, Tensor],
) -> None:
    """Items 24 and 26 against another implementation, which stops at flags where ours stops at the mask."""
    gamma, lam = GAE_CASES[name]
    mask = tensors["mask"]
    got = GAE(gamma, lam).estimate(gae_tensors["token_rewards"], gae_tensors["values"], mask, gae_tensors["tails"])
    for ours, theirs in zip(got, answers[name], strict=True):
        torch.testing.assert_close(ours[mask], theirs[mask], rtol=0, atol=1e-6)
