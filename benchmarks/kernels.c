/* The three rules in C, written by hand: what Python with a compiler is measured against.
 *
 * Same algorithm, same data layout (an array of steps that point into a feature table), same random
 * numbers, same divergence check. Compiled twice: with D given, the number of features is known at
 * compile time (the limit); without, only at run time, as in the library. */
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    uint32_t row, next_row;
    double reward, discount, rho;
    int64_t episode;
} step_t;

#ifdef D
#define DIM(d) D
#else
#define DIM(d) (d)
#endif

static inline uint64_t next_word(uint64_t *rng) {
    uint64_t z = (*rng += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
}

static inline int64_t next_below(uint64_t *rng, int64_t n) {
    return (int64_t)((double)(int64_t)(next_word(rng) >> 11) * 0x1.0p-53 * (double)n);
}

static inline int within(const double *theta, int64_t dim, double limit) {
    int inside = 1;
    for (int64_t k = 0; k < DIM(dim); k++) inside &= fabs(theta[k]) <= limit;
    return inside;
}

static inline double td_error(const step_t *s, const double *features, const double *theta, int64_t dim) {
    const double *x = features + s->row * DIM(dim), *after = features + s->next_row * DIM(dim);
    double total = 0;
    for (int64_t k = 0; k < DIM(dim); k++) total += (s->discount * after[k] - x[k]) * theta[k];
    return s->reward + total;
}

int64_t td(const step_t *steps, int64_t n, const double *features, int64_t dim, double alpha, double *theta) {
    for (int64_t t = 0; t < n; t++) {
        const step_t *s = steps + t;
        double c = alpha * s->rho * td_error(s, features, theta, dim);
        const double *x = features + s->row * DIM(dim);
        for (int64_t k = 0; k < DIM(dim); k++) theta[k] += c * x[k];
        if (!within(theta, dim, 1e12)) return t + 1;
    }
    return -1;
}

int64_t tdrc(const step_t *steps, int64_t n, const double *features, int64_t dim, double alpha, double eta,
             double beta, double *theta, double *w) {
    for (int64_t t = 0; t < n; t++) {
        const step_t *s = steps + t;
        const double *x = features + s->row * DIM(dim), *after = features + s->next_row * DIM(dim);
        double delta = td_error(s, features, theta, dim), along = 0;
        for (int64_t k = 0; k < DIM(dim); k++) along += x[k] * w[k];
        double c = alpha * s->rho * delta, e = alpha * s->rho * along * s->discount;
        double h = eta * alpha * (s->rho * delta - along), shrink = 1 - eta * alpha * beta;
        for (int64_t k = 0; k < DIM(dim); k++) {
            theta[k] += c * x[k] - e * after[k];
            w[k] = shrink * w[k] + h * x[k];
        }
        if (!within(theta, dim, 1e12)) return t + 1;
    }
    return -1;
}

/* members: step indices of buffer 1, then (from begin2) those of buffer 2; side: the buffer of each step. */
int64_t impression_gtd(const step_t *steps, int64_t n, const double *features, int64_t dim, const uint8_t *side,
                       const uint32_t *members, int64_t begin2, int64_t m, double alpha, uint64_t *rng,
                       double *theta, double *u, double *g) {
    int64_t count[2] = {0, 0};
    for (int64_t t = 0; t < n; t++) {
        count[side[t]]++;
        if (count[0] <= m || count[1] <= m) continue;
        memset(u, 0, sizeof(double) * DIM(dim));
        memset(g, 0, sizeof(double) * DIM(dim));
        uint32_t first[m], second[m];
        for (int64_t i = 0; i < m; i++) first[i] = members[next_below(rng, count[0])];
        for (int64_t i = 0; i < m; i++) second[i] = members[begin2 + next_below(rng, count[1])];
        for (int64_t j = 0; j < m; j++) {
            const step_t *s = steps + second[j];
            const double *x = features + s->row * DIM(dim);
            double c = s->rho * td_error(s, features, theta, dim) / m;
            for (int64_t k = 0; k < DIM(dim); k++) u[k] += c * x[k];
        }
        for (int64_t i = 0; i < m; i++) {
            const step_t *s = steps + first[i];
            const double *x = features + s->row * DIM(dim), *after = features + s->next_row * DIM(dim);
            double along = 0;
            for (int64_t k = 0; k < DIM(dim); k++) along += x[k] * u[k];
            double c = s->rho * along / m;
            for (int64_t k = 0; k < DIM(dim); k++) g[k] += c * (s->discount * after[k] - x[k]);
        }
        for (int64_t k = 0; k < DIM(dim); k++) theta[k] -= alpha * g[k];
        if (!within(theta, dim, 1e12)) return t + 1;
    }
    return -1;
}
