# SPDX-License-Identifier: Apache-2.0
"""jax_work.py SECONDS: a small network's gradient steps on random weights; its rate and a digest."""
import hashlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
from loop import loop

seconds = float(sys.argv[1])
key = jax.random.PRNGKey(7)
w0 = jax.random.normal(key, (2048, 2048)) / 2048 ** 0.5
x = jax.random.normal(key, (512, 2048))


@jax.jit
def step(w):
    return w - 1e-3 * jax.grad(lambda v: jnp.mean(jnp.tanh(x @ v) ** 2))(w)


def steps():
    w = w0
    for _ in range(16):
        w = step(w)
    return 16, hashlib.sha256(np.asarray(w).tobytes()).hexdigest()[:16]


loop("jax", steps, seconds)
