"""The family for networks against the linear rules, against its stated objectives, and against finite differences."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from gradtd import ALGORITHMS, InputError, Stream
from gradtd.core.algorithm import Now
from gradtd.deep import Batch, Mlp, impression_direction, impression_loss, td_errors
from gradtd.deep.baselines import correction_loss, gaussian_kernel, k_loss, residual_loss, semi_gradient_loss
from gradtd.deep.impression import impression

D, M1, M2, ALPHA = 4, 5, 7, 0.1
FIRST, SECOND = np.arange(M1, dtype=np.uint32), np.arange(M1, M1 + M2, dtype=np.uint32)


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def stream():
    rng = np.random.default_rng(3)
    n = M1 + M2
    return Stream.from_arrays(
        features=rng.normal(size=(2 * n, D)),
        row=np.arange(n),
        next_row=n + np.arange(n),
        reward=rng.normal(size=n),
        discount=np.where(rng.random(n) < 0.3, 0.0, 0.5 + 0.5 * rng.random(n)),  # of every step, 0 where it ended
        episode=np.repeat([0, 1], [M1, M2]),
        rho=rng.gamma(1.0, size=n),
    )


THETA = np.random.default_rng(4).normal(size=D)


def batch_of(stream, index):
    steps = stream.steps[index]
    numbers = [jnp.asarray(np.array(steps[name])) for name in ("discount", "rho")]
    x, after = (jnp.asarray(stream.features[steps[name]]) for name in ("row", "next_row"))
    return Batch(x, jnp.asarray(np.array(steps["reward"])), after, *numbers)


def linear(theta, x):
    return x @ theta, x


def moved(rule, stream, state, **hyper):
    """What one update of a compiled rule adds to theta, over -alpha."""
    state = SimpleNamespace(theta=THETA.copy(), **state)
    hyper = SimpleNamespace(eta=1.0, beta=0.7, lam=0.0, **hyper)
    rule.update(state, stream.view, Now(np.uint64(0), 0, 1, ALPHA, FIRST, SECOND), hyper)
    return (THETA - state.theta) / ALPHA


def variant(stream, similarity, directions):
    rule = ALGORITHMS["impression_gtd"]
    hyper = {"similarity": similarity, "directions": directions, "alpha": ALPHA, "lam": 0.0, "m1": M1, "m2": M2}
    chosen = rule.choose(hyper)
    return moved(chosen, stream, chosen.init(D, hyper))


def direction(apply, params, first, second, **options):
    """Compiled, which is faster than step by step even for one call."""
    return jax.jit(lambda *a: impression_direction(apply, *a, **options))(params, first, second)


def ours(stream, **options):
    return np.asarray(direction(linear, THETA, batch_of(stream, FIRST), batch_of(stream, SECOND), **options))


@pytest.mark.parametrize("directions", ["one", "both", "averaged"])
@pytest.mark.parametrize("similarity", ["last", "gradient"])
@pytest.mark.parametrize("hessian", [False, True])
def test_a_linear_network_follows_the_compiled_rule(stream, similarity, directions, hessian):
    """Gradients of a linear value do not change, but features that are learned do: with the last layer of a network
    without hidden layers, x itself, the Hessian term is zero as well."""
    made = ours(stream, similarity=similarity, whiten=False, form="residual", hessian=hessian, directions=directions)
    np.testing.assert_allclose(made, variant(stream, "correlation", directions), rtol=0, atol=1e-10)


@pytest.mark.parametrize("directions", ["one", "both"])
def test_a_kernel_follows_the_compiled_rule(stream, directions):
    def plain(x, y):
        return np.exp(-np.sum((x - y) ** 2) / 2)

    made = ours(stream, similarity=gaussian_kernel(1.0), whiten=False, form="residual", directions=directions)
    np.testing.assert_allclose(made, variant(stream, plain, directions), rtol=0, atol=1e-10)


def second_moments(batch, ridge):
    """C + b I of a batch, with b = ridge kbar / m."""
    X, m = np.asarray(batch.x), len(batch.x)
    return X.T @ X / m + ridge * np.mean(np.sum(X**2, axis=1)) / m * np.eye(D)


@pytest.mark.parametrize("similarity", ["last", "gradient"])
def test_whitened_it_is_the_compiled_rule_with_the_second_batchs_C(stream, similarity):
    U = second_moments(batch_of(stream, SECOND), 0.3)
    made = ours(stream, similarity=similarity, form="residual", ridge=0.3)
    np.testing.assert_allclose(made, variant(stream, U, "one"), rtol=0, atol=1e-10)


@pytest.mark.parametrize("similarity", ["last", "gradient"])
def test_the_corrected_form_is_compiled_tdc_with_w_from_the_second_batch(stream, similarity):
    second = batch_of(stream, SECOND)
    errors = np.asarray(second.rho * td_errors(linear, THETA, second))
    w = np.linalg.solve(second_moments(second, 0.3), np.asarray(second.x).T @ errors / M2)
    tdc = moved(ALGORITHMS["minibatch_tdc_replay"], stream, {"w": w, "g": np.zeros(D), "h": np.zeros(D)})
    np.testing.assert_allclose(ours(stream, similarity=similarity, ridge=0.3), tdc, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["minibatch_td", "residual_gradient", "tdc", "tdrc"])
def test_baselines_follow_the_compiled_rules_on_a_linear_network(stream, name):
    one = FIRST[:1] if name != "minibatch_td" else FIRST
    batch, w = batch_of(stream, one), np.random.default_rng(5).normal(size=D)
    state = SimpleNamespace(theta=THETA.copy(), w=w.copy(), u=np.zeros(D))
    hyper = SimpleNamespace(eta=1.0, beta=0.7, lam=0.0)
    ALGORITHMS[name].update(state, stream.view, Now(np.uint64(0), 0, 1, ALPHA, one, SECOND), hyper)
    if name.startswith("td"):
        options = {"beta": 0.7, "regularised": name == "tdrc"}
        made, head = jax.grad(lambda p, h: correction_loss(linear, p, h, batch, **options), (0, 1))(THETA, w)
        np.testing.assert_allclose(head, (w - state.w) / ALPHA, rtol=0, atol=1e-10)
    else:
        loss = residual_loss if name == "residual_gradient" else semi_gradient_loss
        made = jax.grad(lambda p: loss(linear, p, batch))(THETA)
    np.testing.assert_allclose(made, (THETA - state.theta) / ALPHA, rtol=0, atol=1e-10)


# A network that is not linear

NET = Mlp(D, hidden=(4, 3), activation="tanh")


def params_of(seed=0, dtype=jnp.float64):
    params = NET.init(jax.random.key(seed), dtype)
    return params | {"head": jax.random.normal(jax.random.key(seed + 100), params["head"].shape, dtype)}


def derivatives(loss, params, step=1e-6):
    """Central differences along every coordinate."""
    moves = step * jnp.eye(len(params))
    return jax.jit(jax.vmap(lambda move: (loss(params + move) - loss(params - move)) / (2 * step)))(moves)


@pytest.mark.parametrize("whiten", [False, True])
@pytest.mark.parametrize(
    "similarity",
    [pytest.param("gradient", marks=pytest.mark.slow), "last", pytest.param("kernel", marks=pytest.mark.slow)],
)
def test_with_the_hessian_the_residual_form_is_the_gradient_of_its_objective(stream, whiten, similarity):
    """Written out once more: w as a vector by explicit Jacobians and a p x p system, then autodiff and differences."""
    first, second, params = batch_of(stream, FIRST), batch_of(stream, SECOND), params_of()
    flat, back = ravel_pytree(params)
    kernel = gaussian_kernel(2.0)

    @jax.jit
    def rows(p, x):
        if similarity == "last":
            return NET.apply(back(p), x)[1]
        return jax.jacobian(lambda q: NET.apply(back(q), x)[0])(p)

    errors, ridge = np.asarray(second.rho * td_errors(NET.apply, params, second)), 0.5
    if similarity == "kernel":
        K = np.asarray(kernel(second.x, second.x))
        share = np.linalg.solve(K + ridge * np.diag(K).mean() * np.eye(M2), errors) if whiten else errors / M2
        h_of = lambda p: kernel(first.x, second.x) @ share  # noqa: E731
    else:
        R = np.asarray(rows(flat, second.x))
        w = R.T @ errors / M2
        if whiten:
            b = ridge * np.mean(np.sum(R**2, axis=1)) / M2
            w = np.linalg.solve(R.T @ R / M2 + b * np.eye(R.shape[1]), w)
        h_of = lambda p: rows(p, first.x) @ w  # noqa: E731

    def value(p):
        h = h_of(p)
        gain = first.rho * td_errors(NET.apply, back(p), first) * h
        return jnp.mean(gain - h**2 / 2 if whiten else gain)

    options = {"similarity": kernel if similarity == "kernel" else similarity, "whiten": whiten, "ridge": ridge}
    made = direction(NET.apply, params, first, second, form="residual", hessian=True, **options)
    flat_made = np.asarray(ravel_pytree(made)[0])
    np.testing.assert_allclose(flat_made, jax.jit(jax.grad(value))(flat), rtol=0, atol=1e-9)
    np.testing.assert_allclose(flat_made, derivatives(value, flat), rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_both_directions_with_the_hessian_are_the_gradient_of_the_product_of_two_estimates(stream):
    """NEU from two batches: u1 . u2, of which the sum of both directions is the whole gradient."""
    first, second, params = batch_of(stream, FIRST), batch_of(stream, SECOND), params_of()
    flat, back = ravel_pytree(params)

    def update(p, batch):
        rho_delta = batch.rho * td_errors(NET.apply, back(p), batch)
        return rho_delta @ jax.jacobian(lambda q: NET.apply(back(q), batch.x)[0])(p) / len(rho_delta)

    wanted = jax.jit(jax.grad(lambda p: update(p, first) @ update(p, second)))(flat)
    made = direction(
        *(NET.apply, params, first, second),
        similarity="gradient",
        whiten=False,
        form="residual",
        hessian=True,
        directions="both",
    )
    np.testing.assert_allclose(ravel_pytree(made)[0], wanted, rtol=0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("hessian", [False, True])
def test_the_corrected_form_is_its_equation(stream, hessian):
    first, second, params = batch_of(stream, FIRST), batch_of(stream, SECOND), params_of()
    flat, back = ravel_pytree(params)
    h_of = lambda p: impression(NET.apply, back(p), first.x, second, similarity="gradient", ridge=0.5)  # noqa: E731
    h, delta = np.asarray(h_of(flat)), np.asarray(td_errors(NET.apply, params, first))
    J, J_next = (jax.jacobian(lambda q, x=x: NET.apply(back(q), x)[0])(flat) for x in (first.x, first.next_x))
    wanted = (first.rho * first.discount * h) @ J_next - (first.rho * delta) @ J
    if hessian:  # batch 2 stays at the parameters of now: only gradients at batch 1 are differentiated
        w = _w_of(params, second, 0.5)
        wanted = wanted + (first.rho * delta - h) @ jax.jacobian(lambda q: _along(q, back, first.x, w))(flat)
    made = direction(NET.apply, params, first, second, similarity="gradient", hessian=hessian, ridge=0.5)
    np.testing.assert_allclose(ravel_pytree(made)[0], wanted / M1, rtol=0, atol=1e-10)


def test_the_automatic_correction_is_scaled_by_the_slope_of_the_errors_of_batch_1(stream):
    first, second, params = batch_of(stream, FIRST), batch_of(stream, SECOND), params_of()
    h = np.asarray(impression(NET.apply, params, first.x, second, ridge="auto"))
    errors = np.asarray(first.rho * td_errors(NET.apply, params, first))
    slope = np.clip(h @ errors / (h @ h), 0, 1)
    flat, back = ravel_pytree(params)
    J, J_next = (jax.jacobian(lambda q, x=x: NET.apply(back(q), x)[0])(flat) for x in (first.x, first.next_x))
    wanted = (first.rho * first.discount * slope * h) @ J_next - errors @ J
    made = direction(NET.apply, params, first, second)
    np.testing.assert_allclose(ravel_pytree(made)[0], wanted / M1, rtol=0, atol=1e-10)


def _along(q, back, x, w):
    return jax.jacobian(lambda p: NET.apply(back(p), x)[0])(q) @ w


def _w_of(params, second, ridge):
    flat, back = ravel_pytree(params)
    R = np.asarray(jax.jacobian(lambda q: NET.apply(back(q), second.x)[0])(flat))
    errors = np.asarray(second.rho * td_errors(NET.apply, params, second))
    K = R @ R.T
    return R.T @ np.linalg.solve(K + ridge * np.diag(K).mean() * np.eye(len(K)), errors)


def test_a_large_ridge_is_semi_gradient_td(stream):
    first, second, params = batch_of(stream, FIRST), batch_of(stream, SECOND), params_of()
    made = ravel_pytree(direction(NET.apply, params, first, second, ridge=1e12))[0]
    semi = ravel_pytree(jax.grad(lambda p: semi_gradient_loss(NET.apply, p, first))(params))[0]
    np.testing.assert_allclose(made, semi, rtol=0, atol=1e-9)


def test_the_k_loss_of_one_batch_is_the_gradient_of_all_its_pairs(stream):
    batch, params = batch_of(stream, SECOND), params_of()
    kernel = gaussian_kernel(1.5)
    e, K = np.asarray(batch.rho * td_errors(NET.apply, params, batch)), np.asarray(kernel(batch.x, batch.x))
    pairs = [e[i] * K[i, j] * e[j] for i in range(M2) for j in range(M2) if i != j]
    np.testing.assert_allclose(k_loss(NET.apply, params, batch, kernel), np.mean(pairs) / 2, rtol=1e-12)


@pytest.mark.slow
def test_jit_vmap_and_32_bits_give_the_same(stream):
    first, second = batch_of(stream, FIRST), batch_of(stream, SECOND)
    step = lambda p: impression_direction(NET.apply, p, first, second)  # noqa: E731
    seeds = [params_of(seed) for seed in range(3)]
    together = jax.jit(jax.vmap(step))(jax.tree.map(lambda *a: jnp.stack(a), *seeds))
    for k, params in enumerate(seeds):
        alone = ravel_pytree(jax.jit(step)(params))[0]
        np.testing.assert_allclose(ravel_pytree(jax.tree.map(lambda a, k=k: a[k], together))[0], alone, atol=1e-10)
    narrow = [jax.tree.map(lambda a: a.astype(jnp.float32), one) for one in (seeds[0], first, second)]
    made = ravel_pytree(direction(NET.apply, *narrow))[0]
    assert made.dtype == jnp.float32
    np.testing.assert_allclose(made, ravel_pytree(jax.jit(step)(seeds[0]))[0], rtol=1e-3, atol=1e-4)


def test_what_is_no_choice_is_refused(stream):
    first, second = batch_of(stream, FIRST), batch_of(stream, SECOND)
    for options in (
        {"form": "other"},
        {"similarity": "cosine"},
        {"directions": "two"},
        {"ridge": -1.0},
        {"ridge": "x"},
    ):
        with pytest.raises(InputError):
            impression_loss(NET.apply, params_of(), first, second, **options)
    with pytest.raises(TypeError, match="features"):
        impression_loss(lambda p, x: x @ p, THETA, first, second)
