/* The workloads by hand in C, one thread, no fast-math: the limits that the benchmark compares with.
   Compiled and called by bench/workloads/__init__.py; arrays are contiguous float64. */
#include <math.h>

/* d/dx of the sum of squares of the running sums of x; s is scratch */
void running_sum_gradient(const double *x, double *s, double *g, long n) {
  double a = 0, c = 0;
  for (long i = 0; i < n; i++) s[i] = a += x[i];
  for (long i = n - 1; i >= 0; i--) g[i] = c += 2 * s[i];
}

static inline void f(const double *s, const double *p, double *o) {
  o[0] = p[0] * (s[1] - s[0]);
  o[1] = s[0] * (p[1] - s[2]) - s[1];
  o[2] = s[0] * s[1] - p[2] * s[2];
}

static inline void pull(const double *s, const double *p, const double *g, double *gs, double *gp) {
  gs[0] += -p[0] * g[0] + (p[1] - s[2]) * g[1] + s[1] * g[2];
  gs[1] += p[0] * g[0] - g[1] + s[0] * g[2];
  gs[2] += -s[0] * g[1] - p[2] * g[2];
  gp[0] += (s[1] - s[0]) * g[0];
  gp[1] += s[0] * g[1];
  gp[2] += -s[2] * g[2];
}

static inline void stages(const double *s, const double *p, double h, double *k1, double *a1, double *a2, double *a3) {
  double k2[3], k3[3];
  f(s, p, k1);
  for (int i = 0; i < 3; i++) a1[i] = s[i] + h / 2 * k1[i];
  f(a1, p, k2);
  for (int i = 0; i < 3; i++) a2[i] = s[i] + h / 2 * k2[i];
  f(a2, p, k3);
  for (int i = 0; i < 3; i++) a3[i] = s[i] + h * k3[i];
}

static inline void step(double *s, const double *p, double h) {
  double k1[3], k2[3], k3[3], k4[3], a1[3], a2[3], a3[3];
  f(s, p, k1);
  for (int i = 0; i < 3; i++) a1[i] = s[i] + h / 2 * k1[i];
  f(a1, p, k2);
  for (int i = 0; i < 3; i++) a2[i] = s[i] + h / 2 * k2[i];
  f(a2, p, k3);
  for (int i = 0; i < 3; i++) a3[i] = s[i] + h * k3[i];
  f(a3, p, k4);
  for (int i = 0; i < 3; i++) s[i] += h / 6 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]);
}

/* the sum of squares of a Lorenz orbit's last state, by RK4 from (1, 1, 1) */
double lorenz(const double *p, double h, long steps) {
  double s[3] = {1, 1, 1};
  for (long t = 0; t < steps; t++) step(s, p, h);
  return s[0] * s[0] + s[1] * s[1] + s[2] * s[2];
}

/* its gradient by p: the states are stored in path, and the step is computed again on the way back */
void lorenz_gradient(const double *p, double h, long steps, double *path, double *gp) {
  double s[3] = {1, 1, 1}, k1[3], a1[3], a2[3], a3[3];
  for (long t = 0; t < steps; t++) {
    for (int i = 0; i < 3; i++) path[3 * t + i] = s[i];
    step(s, p, h);
  }
  double g[3] = {2 * s[0], 2 * s[1], 2 * s[2]}, sum[3] = {0, 0, 0};
  for (long t = steps - 1; t >= 0; t--) {
    double *s0 = path + 3 * t, gs[3] = {g[0], g[1], g[2]}, gk[3], ga[3];
    stages(s0, p, h, k1, a1, a2, a3);
    for (int i = 0; i < 3; i++) gk[i] = h / 6 * g[i], ga[i] = 0;
    pull(a3, p, gk, ga, sum);
    for (int i = 0; i < 3; i++) gs[i] += ga[i], gk[i] = h / 3 * g[i] + h * ga[i], ga[i] = 0;
    pull(a2, p, gk, ga, sum);
    for (int i = 0; i < 3; i++) gs[i] += ga[i], gk[i] = h / 3 * g[i] + h / 2 * ga[i], ga[i] = 0;
    pull(a1, p, gk, ga, sum);
    for (int i = 0; i < 3; i++) gs[i] += ga[i], gk[i] = h / 6 * g[i] + h / 2 * ga[i];
    pull(s0, p, gk, gs, sum);
    for (int i = 0; i < 3; i++) g[i] = gs[i];
  }
  for (int i = 0; i < 3; i++) gp[i] = sum[i];
}

/* gradient of the sum over pairs of 1 / sqrt(r^2 + 1e-3) by the n positions (x, y, z) */
void pair_potential_gradient(const double *x, const double *y, const double *z, double *g, long n) {
  for (long i = 0; i < n; i++) {
    double gx = 0, gy = 0, gz = 0;
    for (long j = 0; j < n; j++) {
      double dx = x[i] - x[j], dy = y[i] - y[j], dz = z[i] - z[j];
      double inv = 1 / sqrt(dx * dx + dy * dy + dz * dz + 1e-3), c = -2 * inv * inv * inv;
      gx += c * dx, gy += c * dy, gz += c * dz;
    }
    g[3 * i] = gx, g[3 * i + 1] = gy, g[3 * i + 2] = gz;
  }
}
