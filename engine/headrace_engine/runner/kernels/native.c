/*
 * The steps of a transformer layer that are not matrix products, on CPU: residual and RMS norm, norms of heads, rotary
 * positions, attention over paged keys and values, gates of the MLP. Compiled at first use and called through ctypes.
 *
 * Pages of one layer (see kv_cache.py): keys [block][kv_head][head_dim][block_size], transposed so that one vector
 * load brings one channel of VL positions; values [block][kv_head][block_size][head_dim].
 * head_dim and block_size are multiples of VL. All arithmetic is in float, whatever is stored.
 */
#include <stdint.h>
#include <math.h>

#define VL 16
#define MAX_TILE_ROWS 32
#define MAX_WIDTH 256
#define MASKED (-1e30f) /* finite: the compiler is told that there are no infinities */
#define WORTH_SHARING 32 /* tokens: for fewer, waking the other threads takes longer than the work */
#define CACHE_LINE 64 /* bytes */
#define INLINE static inline __attribute__((always_inline))

typedef float vec __attribute__((vector_size(4 * VL), aligned(4)));

#ifdef STORED_BF16
typedef uint16_t real;
typedef uint16_t half_vec __attribute__((vector_size(2 * VL), aligned(2)));
typedef uint32_t word_vec __attribute__((vector_size(4 * VL), aligned(4)));
INLINE vec load(const real *p) { return (vec)(__builtin_convertvector(*(const half_vec *)p, word_vec) << 16); }
INLINE float get(real x) {
    union { uint32_t u; float f; } v = {(uint32_t)x << 16};
    return v.f;
}
INLINE real put(float x) { /* round to nearest, ties to even */
    union { float f; uint32_t u; } v = {x};
    return (real)((v.u + 0x7FFF + ((v.u >> 16) & 1)) >> 16);
}
#else
typedef float real;
INLINE vec load(const real *p) { return *(const vec *)p; }
INLINE float get(real x) { return x; }
INLINE real put(float x) { return x; }
#endif

typedef struct {
    int32_t heads, kv_heads, head_dim, block_size, threads;
} Shape;

/* How a layer scores: softcap 0 caps nothing; window 0 sees everything, else a token sees itself and window - 1 before. */
typedef struct {
    float scale, softcap;
    int32_t window;
} Rule;

/* R rows of R sequences: row r owns tokens query_starts[r] .. query_starts[r + 1], the last of context_lengths[r]. */
typedef struct {
    int32_t rows, table_stride;
    const int32_t *query_starts, *context_lengths, *block_tables;
} Batch;

/* exp(x) for x <= 0 to about 1e-6: 2^n times a polynomial on [-ln2/2, ln2/2] (Cephes). */
INLINE float exp_negative(float x) {
    x = x < -87.0f ? -87.0f : x;
    int32_t n = (int32_t)(x * 1.44269504f - 0.5f);
    float r = x - (float)n * 0.69314718f;
    float y = 1.9875691500e-4f;
    y = y * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * r * r + r + 1.0f;
    union { int32_t i; float f; } power = {(n + 127) << 23};
    return y * power.f;
}

/* out = x / rms(x) * weight; `out` may be `x`. */
INLINE void norm(const real *x, const real *weight, real *out, int64_t width, float eps) {
    float squares = 0;
    for (int64_t i = 0; i < width; i++) squares += get(x[i]) * get(x[i]);
    float inverse = 1.0f / sqrtf(squares / (float)width + eps);
    for (int64_t i = 0; i < width; i++) out[i] = put(get(put(get(x[i]) * inverse)) * get(weight[i]));
}

/* x += delta (where there is one); out = x / rms(x) * weight. [tokens][width] */
void add_rms_norm(real *x, const real *delta, const real *weight, real *out, int64_t tokens, int64_t width, float eps,
                  int32_t threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1 && tokens >= WORTH_SHARING)
    for (int64_t t = 0; t < tokens; t++) {
        real *row = x + t * width;
        if (delta)
            for (int64_t i = 0; i < width; i++) row[i] = put(get(row[i]) + get(delta[t * width + i]));
        norm(row, weight, out + t * width, width, eps);
    }
}

/* Every query and key head, each by itself, in place. qkv [tokens][heads + 2 kv_heads][head_dim] */
void norm_heads(const Shape *shape, real *qkv, const real *query_weight, const real *key_weight, int64_t tokens,
                float eps) {
    const int width = shape->head_dim, heads = shape->heads, kv_heads = shape->kv_heads;
#pragma omp parallel for num_threads(shape->threads) if (shape->threads > 1 && tokens >= WORTH_SHARING)
    for (int64_t t = 0; t < tokens; t++) {
        real *head = qkv + t * (heads + 2 * kv_heads) * width;
        for (int h = 0; h < heads + kv_heads; h++, head += width)
            norm(head, h < heads ? query_weight : key_weight, head, width, eps);
    }
}

INLINE float sigmoid(float x) {
    float e = exp_negative(x < 0 ? x : -x);
    return (x < 0 ? e : 1.0f) / (1.0f + e);
}

/* out = silu(gate) * up, gate and up side by side. [tokens][2 * width] -> [tokens][width] */
void swiglu(const real *gate_up, real *out, int64_t tokens, int64_t width, int32_t threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1 && tokens >= WORTH_SHARING)
    for (int64_t t = 0; t < tokens; t++) {
        const real *gate = gate_up + 2 * t * width, *up = gate + width;
        for (int64_t i = 0; i < width; i++) {
            float g = get(gate[i]);
            out[t * width + i] = put(get(put(g * sigmoid(g))) * get(up[i]));
        }
    }
}

/* As swiglu, with the gate's gelu by tanh: (1 + tanh z) / 2 = sigmoid(2 z), 2 sqrt(2 / pi) = 1.59577. */
void geglu(const real *gate_up, real *out, int64_t tokens, int64_t width, int32_t threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1 && tokens >= WORTH_SHARING)
    for (int64_t t = 0; t < tokens; t++) {
        const real *gate = gate_up + 2 * t * width, *up = gate + width;
        for (int64_t i = 0; i < width; i++) {
            float g = get(gate[i]), z = 1.5957691216f * (g + 0.044715f * g * g * g);
            out[t * width + i] = put(get(put(g * sigmoid(z))) * get(up[i]));
        }
    }
}

INLINE void rotate(real *head, const real *cosines, const real *sines, int half) {
    for (int i = 0; i < half; i++) {
        float a = get(head[i]), b = get(head[half + i]), c = get(cosines[i]), s = get(sines[i]);
        head[i] = put(a * c - b * s);
        head[half + i] = put(b * c + a * s);
    }
}

/* Rotates the queries and keys of one token in place and writes its keys and values into their page. */
static void store_token(const Shape *shape, real *qkv, const real *cosines, const real *sines, real *keys, real *values,
                        int64_t block, int offset) {
    const int width = shape->head_dim, size = shape->block_size, kv_heads = shape->kv_heads;
    for (int h = 0; h < shape->heads + kv_heads; h++) rotate(qkv + h * width, cosines, sines, width / 2);
    const real *key = qkv + shape->heads * width, *value = key + kv_heads * width;
    for (int h = 0; h < kv_heads; h++) {
        int64_t page = (block * kv_heads + h) * (int64_t)width * size;
        for (int i = 0; i < width; i++) keys[page + (int64_t)i * size + offset] = key[h * width + i];
        for (int i = 0; i < width; i++) values[page + (int64_t)offset * width + i] = value[h * width + i];
    }
}

/* scores[R][size] = query[R][width] times one page of keys. R and C are constants at each call: all in registers. */
INLINE void page_scores(const int R, const int C, const float *query, const real *keys, float *scores, int width, int size) {
    for (int j = 0; j < size; j += C * VL) {
        vec sum[4][4] = {{{0}}};
        for (int i = 0; i < width; i++) {
            vec k[4];
            for (int c = 0; c < C; c++) k[c] = load(keys + i * size + j + c * VL);
            for (int r = 0; r < R; r++)
                for (int c = 0; c < C; c++) sum[r][c] += query[r * width + i] * k[c];
        }
        for (int r = 0; r < R; r++)
            for (int c = 0; c < C; c++) *(vec *)(scores + r * size + j + c * VL) = sum[r][c];
    }
}

/* out[R][width] = out * decay[R] + weights[R][count] times `count` rows of one page of values. */
INLINE void page_mix(const int R, const int C, const float *weights, const float *decay, const real *values, float *out,
                     int width, int size, int count) {
    for (int i = 0; i < width; i += C * VL) {
        vec sum[4][4];
        for (int r = 0; r < R; r++)
            for (int c = 0; c < C; c++) sum[r][c] = *(vec *)(out + r * width + i + c * VL) * decay[r];
        for (int j = 0; j < count; j++) {
            vec v[4];
            for (int c = 0; c < C; c++) v[c] = load(values + (int64_t)j * width + i + c * VL);
            for (int r = 0; r < R; r++)
                for (int c = 0; c < C; c++) sum[r][c] += weights[r * size + j] * v[c];
        }
        for (int r = 0; r < R; r++)
            for (int c = 0; c < C; c++) *(vec *)(out + r * width + i + c * VL) = sum[r][c];
    }
}

#define BY_ROWS(call, left, C, ...)                                    \
    switch (left) {                                                    \
    case 1: call(1, C, __VA_ARGS__); break;                            \
    case 2: call(2, C, __VA_ARGS__); break;                            \
    case 3: call(3, C, __VA_ARGS__); break;                            \
    default: call(4, C, __VA_ARGS__);                                  \
    }
#define BY_SHAPE(call, left, extent, ...)                              \
    if ((extent) % (4 * VL) == 0) { BY_ROWS(call, left, 4, __VA_ARGS__) } \
    else if ((extent) % (2 * VL) == 0) { BY_ROWS(call, left, 2, __VA_ARGS__) } \
    else { BY_ROWS(call, left, 1, __VA_ARGS__) }

static void score_page(int rows, const float *query, const real *keys, float *scores, int width, int size) {
    for (int r = 0; r < rows; r += 4)
        BY_SHAPE(page_scores, rows - r, size, query + r * width, keys, scores + r * size, width, size)
}

static void mix_page(int rows, const float *weights, const float *decay, const real *values, float *out, int width,
                     int size, int count) {
    for (int r = 0; r < rows; r += 4)
        BY_SHAPE(page_mix, rows - r, width, weights + r * size, decay + r, values, out + r * width, width, size, count)
}

static void cap_scores(float *scores, int count, float softcap) {
    for (int i = 0; i < count; i++) scores[i] = softcap * tanhf(scores[i] / softcap);
}

INLINE int clamp(int x, int size) { return x < 0 ? 0 : x < size ? x : size; }

/* One row's running softmax over positions [from, to) of a page: scores become weights, those of other positions zero,
 * so that a row's sums hold nothing that depends on what shares its tile; returns how much what was summed before
 * shrinks. */
INLINE float soften(float *scores, int size, int from, int to, float *maximum, float *total) {
    float best = *maximum, sum = 0;
    for (int j = 0; j < from; j++) scores[j] = MASKED;
    for (int j = to; j < size; j++) scores[j] = MASKED;
    for (int j = 0; j < size; j++) best = scores[j] > best ? scores[j] : best;
    for (int j = 0; j < size; j++) {
        scores[j] = scores[j] > MASKED ? exp_negative(scores[j] - best) : 0;
        sum += scores[j];
    }
    float decay = exp_negative(*maximum - best);
    *maximum = best;
    *total = *total * decay + sum;
    return decay;
}

INLINE void prefetch(const real *page, int count) {
    for (int i = 0; i < count; i += CACHE_LINE / (int)sizeof(real)) __builtin_prefetch(page + i, 0, 2);
}

/* The queries of up to MAX_TILE_ROWS (token, head) pairs that share a KV head, against all pages that they see. */
static void attend_tile(const Shape *shape, const Rule *rule, const real *qkv, const real *keys, const real *values, real *out,
                        const int32_t *table, int kv_head, int64_t first_token, int tokens, int first_position) {
    const int width = shape->head_dim, size = shape->block_size, group = shape->heads / shape->kv_heads;
    const int window = rule->window ? rule->window : INT32_MAX; /* positions stay far below */
    const int rows = tokens * group;
    const int64_t stride = (int64_t)(shape->heads + 2 * shape->kv_heads) * width;
    float query[MAX_TILE_ROWS * MAX_WIDTH], mixed[MAX_TILE_ROWS * MAX_WIDTH] = {0};
    float scores[MAX_TILE_ROWS * MAX_WIDTH], decay[MAX_TILE_ROWS], maximum[MAX_TILE_ROWS], total[MAX_TILE_ROWS];
    for (int r = 0; r < rows; r++) {
        const real *from = qkv + (first_token + r / group) * stride + (kv_head * group + r % group) * width;
        for (int i = 0; i < width; i++) query[r * width + i] = get(from[i]) * rule->scale;
        maximum[r] = MASKED;
        total[r] = 0;
    }
    const int end = first_position + tokens, begin = first_position < window ? 0 : first_position - window + 1;
    for (int base = begin / size * size; base < end; base += size) {
        int64_t page = ((int64_t)table[base / size] * shape->kv_heads + kv_head) * width * size;
        if (tokens == 1 && base + size < end) { /* a decode reads a page once, from memory; tiles of a prompt share theirs */
            int64_t next = ((int64_t)table[base / size + 1] * shape->kv_heads + kv_head) * width * size;
            prefetch(keys + next, width * size);
            prefetch(values + next, width * size);
        }
        score_page(rows, query, keys + page, scores, width, size);
        if (rule->softcap > 0) cap_scores(scores, rows * size, rule->softcap);
        for (int r = 0; r < rows; r++) {
            int to = first_position + r / group + 1 - base;
            decay[r] = soften(scores + r * size, size, clamp(to - window, size), clamp(to, size), maximum + r, total + r);
        }
        mix_page(rows, scores, decay, values + page, mixed, width, size, end - base < size ? end - base : size);
    }
    for (int r = 0; r < rows; r++) {
        real *to = out + ((first_token + r / group) * shape->heads + kv_head * group + r % group) * width;
        for (int i = 0; i < width; i++) to[i] = put(mixed[r * width + i] / total[r]);
    }
}

static int tiles_of(const Batch *batch, int row, int tile_tokens) {
    return (batch->query_starts[row + 1] - batch->query_starts[row] + tile_tokens - 1) / tile_tokens;
}

static void store_row(const Shape *shape, const Batch *batch, int row, real *qkv, const real *cosines,
                      const real *sines, real *keys, real *values) {
    const int64_t stride = (int64_t)(shape->heads + 2 * shape->kv_heads) * shape->head_dim;
    const int32_t *table = batch->block_tables + (int64_t)row * batch->table_stride;
    const int64_t first = batch->query_starts[row], end = batch->query_starts[row + 1];
#pragma omp parallel for num_threads(shape->threads) if (shape->threads > 1 && end - first >= WORTH_SHARING)
    for (int64_t t = first; t < end; t++) {
        int position = batch->context_lengths[row] - (int)(end - t);
        int64_t at = t * (shape->head_dim / 2);
        store_token(shape, qkv + t * stride, cosines + at, sines + at, keys, values,
                    table[position / shape->block_size], position % shape->block_size);
    }
}

/* Stores the keys and values of every token, then attends.
 * qkv [tokens][heads + 2 kv_heads][head_dim], out [tokens][heads][head_dim]. */
void attend(const Shape *shape, const Rule *rule, const Batch *batch, real *qkv, const real *cosines, const real *sines,
            real *keys, real *values, real *out) {
    const int tile_tokens = MAX_TILE_ROWS / (shape->heads / shape->kv_heads);
    int tiles = 0;
    for (int row = 0; row < batch->rows; row++) {
        store_row(shape, batch, row, qkv, cosines, sines, keys, values);
        tiles += tiles_of(batch, row, tile_tokens);
    }
#pragma omp parallel for schedule(dynamic, 1) num_threads(shape->threads) if (shape->threads > 1)
    for (int task = 0; task < tiles * shape->kv_heads; task++) {
        int row = 0, tile = task / shape->kv_heads, kv_head = task % shape->kv_heads;
        while (tile >= tiles_of(batch, row, tile_tokens)) tile -= tiles_of(batch, row++, tile_tokens);
        int64_t first = batch->query_starts[row] + (int64_t)tile * tile_tokens;
        int left = (int)(batch->query_starts[row + 1] - first);
        attend_tile(shape, rule, qkv, keys, values, out, batch->block_tables + (int64_t)row * batch->table_stride, kv_head,
                    first, left < tile_tokens ? left : tile_tokens,
                    batch->context_lengths[row] - left);
    }
}
