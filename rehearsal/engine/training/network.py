"""The network in PyTorch, and its optimizer. The tensors have the names and layouts of the committed safetensors."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from safetensors.numpy import save_file
from torch import Tensor, nn

from rehearsal.engine.config import ModelConfig, ModelFolder


class Decoder(nn.Module):
    """Decoder whose input is the sum of embeddings of a token and of the tokens before it (n-grams).

    With these a copy needs one attention layer, so that a one-layer draft model can copy too.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        d, v = config.hidden_size, config.vocab_size
        self.E = nn.ParameterList(
            [nn.Parameter(torch.randn(v, d) * (0.05 if back == 0 else 0.03)) for back in range(config.ngram_embeddings)]
        )
        self.nf = nn.Parameter(torch.ones(d))
        self.ls = nn.ModuleList([Layer(config) for _ in range(config.num_hidden_layers)])
        inverse = config.rope_theta ** (-torch.arange(0, config.head_dim, 2).float() / config.head_dim)
        angle = torch.arange(config.max_position_embeddings).float()[:, None] * inverse
        self.register_buffer("cosine", angle.cos(), persistent=False)
        self.register_buffer("sine", angle.sin(), persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits [batch, length, vocabulary]."""
        length = ids.shape[1]
        x = F.embedding(ids, self.E[0])
        for back in range(1, len(self.E)):
            x = x + F.embedding(F.pad(ids, (back, 0))[:, :length], self.E[back])
        for layer in self.ls:
            x = layer(x, self.cosine[:length], self.sine[:length])
        return _norm(x, self.nf) @ self.E[0].T

    def insert_layers(self, total: int) -> None:
        """Grow to `total` layers, spread evenly, that add nothing at first: the function stays the same."""
        old = list(self.ls)
        extra = total - len(old)
        grown: list[nn.Module] = []
        for index, layer in enumerate(old):
            grown.append(layer)
            wanted = round((index + 1) * extra / len(old)) - round(index * extra / len(old))
            grown += [Layer(self.config, silent=True) for _ in range(wanted)]
        self.ls = nn.ModuleList(grown)


class Layer(nn.Module):
    """Attention with rotary positions, then a squared-ReLU feed-forward, each behind an RMSNorm."""

    def __init__(self, config: ModelConfig, *, silent: bool = False) -> None:
        super().__init__()
        d, m = config.hidden_size, config.intermediate_size
        self.heads, self.width = config.heads, config.head_dim
        self.qkv = _matrix(d, 3 * d, 0.7)
        self.o = _matrix(d, d, 0.0 if silent else 0.3)
        self.up = _matrix(d, m, 0.7)
        self.dn = _matrix(m, d, 0.0 if silent else 0.3)
        self.n1, self.n2 = nn.Parameter(torch.ones(d)), nn.Parameter(torch.ones(d))

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        batch, length, d = x.shape
        qkv = (_norm(x, self.n1) @ self.qkv).view(batch, length, 3, self.heads, self.width)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(_rotate(q, cosine, sine), _rotate(k, cosine, sine), v, is_causal=True)
        x = x + attended.transpose(1, 2).reshape(batch, length, d) @ self.o
        return x + F.relu(_norm(x, self.n2) @ self.up).square() @ self.dn


class Optimizer:
    """Muon (orthogonalized momentum) for the layers' matrices, AdamW for the rest."""

    def __init__(self, model: Decoder, *, matrix_rate: float, other_rate: float) -> None:
        self._matrix_rate, self._other_rate = matrix_rate, other_rate
        matrices = [p for p in model.ls.parameters() if p.ndim == 2]
        chosen = {id(p) for p in matrices}
        others = [p for p in model.parameters() if id(p) not in chosen]
        self._adam = torch.optim.AdamW(others, lr=other_rate, betas=(0.9, 0.95), weight_decay=0.0)
        self._momentum = {p: torch.zeros_like(p) for p in matrices}
        self._groups: dict[tuple[int, ...], list[nn.Parameter]] = {}
        for p in matrices:
            self._groups.setdefault(tuple(p.shape), []).append(p)

    @torch.no_grad()
    def step(self, factor: float) -> None:
        """One update with both learning rates scaled by `factor`; the gradients are then cleared."""
        for group in self._adam.param_groups:
            group["lr"] = self._other_rate * factor
        self._adam.step()
        for (rows, columns), parameters in self._groups.items():
            for p in parameters:
                self._momentum[p].lerp_(p.grad, 0.05)
            updates = _orthogonalize(torch.stack([p.grad.lerp(self._momentum[p], 0.95) for p in parameters]))
            rate = self._matrix_rate * factor
            scale = rate * max(1.0, columns / rows) ** 0.5
            for p, update in zip(parameters, updates, strict=True):
                p.mul_(1 - 0.05 * rate).sub_(update, alpha=scale)
                p.grad = None
        self._adam.zero_grad(set_to_none=True)


def save(model: Decoder, folder: ModelFolder) -> None:
    """Write the weights into `folder`."""
    save_file({name: p.detach().numpy().copy() for name, p in model.named_parameters()}, folder.weights)


def _matrix(inputs: int, outputs: int, scale: float) -> nn.Parameter:
    return nn.Parameter(torch.randn(inputs, outputs) * (scale / math.sqrt(inputs)))


def _norm(x: Tensor, gain: Tensor) -> Tensor:
    return F.rms_norm(x, (x.shape[-1],), gain, 1e-5)


def _rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cosine - b * sine, b * cosine + a * sine], dim=-1)


def _orthogonalize(gradient: Tensor) -> Tensor:
    """Newton-Schulz iteration towards the nearest (semi-)orthogonal matrices."""
    x = gradient / (gradient.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    for _ in range(4):
        a = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(a, a, a, beta=-4.7750, alpha=2.0315), x, beta=3.4445)
    return x.mT if tall else x
