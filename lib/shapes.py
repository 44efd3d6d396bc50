"""The one set of sizes that every chapter traces, and the line that prints a shape."""

import torch

from lib.checks import require_tensor

B = 2  # sequences in a batch
T = 5  # tokens in a sequence
h = 4  # attention heads (GPT-2's source calls the hidden state h: another thing)
d_head = 8  # dimensions of one head
d = h * d_head  # width of a token's vector: 32
V = 100  # token ids in the vocabulary


def trace(name: str, tensor: torch.Tensor, meaning: str = "") -> None:
    """Print one line of the shape trace: a tensor's name, its shape and what it means.

    Raises TypeError when `tensor` is not a tensor.
    """
    require_tensor("tensor", tensor)
    print(f"{name:<22}{list(tensor.shape)!s:<18}{meaning}".rstrip())
