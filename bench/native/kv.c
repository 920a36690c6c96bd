// The C side of `moriarty bench kv`: the loops of assembly/ in plain C over the same memory, as a yardstick. Compiled by
// src/cli/bench/kv-native.ts when the bench runs; not part of the package.
//
//   attach(arrayBuffer)   the memory that all addresses refer to
//   copyRuns, planWholeBlocks, planParts   as in src/kv/kernels.ts and row-kernels.ts, without the checks
//   and for units that one context rank holds all

#include <node_api.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static uint8_t *memory;

#define ARGUMENTS_MAX 4
#define NO_ROOM (-5)

static double argument[ARGUMENTS_MAX];

static void read_arguments(napi_env env, napi_callback_info info) {
  napi_value values[ARGUMENTS_MAX];
  size_t count = ARGUMENTS_MAX;
  napi_get_cb_info(env, info, &count, values, NULL, NULL);
  for (size_t i = 0; i < count && i < ARGUMENTS_MAX; i++) napi_get_value_double(env, values[i], &argument[i]);
}

static napi_value number(napi_env env, double value) {
  napi_value result;
  napi_create_double(env, value, &result);
  return result;
}

static napi_value attach(napi_env env, napi_callback_info info) {
  napi_value value;
  size_t count = 1;
  void *bytes;
  size_t length;
  napi_get_cb_info(env, info, &count, &value, NULL, NULL);
  napi_get_arraybuffer_info(env, value, &bytes, &length);
  memory = bytes;
  return number(env, (double)length);
}

// Runs.

static napi_value copy_runs(napi_env env, napi_callback_info info) {
  read_arguments(env, info);
  const uint32_t *run = (const uint32_t *)(memory + (uint32_t)argument[0]);
  const uint32_t count = (uint32_t)argument[1];
  const uint8_t *source = memory + (uint32_t)argument[2];
  uint8_t *target = memory + (uint32_t)argument[3];
  for (uint32_t i = 0; i < count; i++, run += 3) memcpy(target + run[1], source + run[0], run[2]);
  return number(env, -1);
}

// Rows.

static void shift(const double *restrict from, double *restrict to, int64_t count, double distance) {
  for (int64_t i = 0; i < count; i++) to[i] = from[i] + distance;
}

// Whole blocks.

#define DIGIT_BITS_MAX 12
#define DIGIT_BITS_MIN 6

static void scatter(const uint64_t *from, uint64_t *to, uint32_t count, uint32_t shift, uint32_t bits) {
  uint32_t counters[1 << DIGIT_BITS_MAX];
  const uint32_t mask = (1u << bits) - 1;
  memset(counters, 0, sizeof(uint32_t) << bits);
  for (uint32_t i = 0; i < count; i++) counters[(from[i] >> shift) & mask]++;
  uint32_t next = 0;
  for (uint32_t i = 0; i <= mask; i++) {
    const uint32_t here = counters[i];
    counters[i] = next;
    next += here;
  }
  for (uint32_t i = 0; i < count; i++) to[counters[(from[i] >> shift) & mask]++] = from[i];
}

static uint64_t *sort_pairs(uint64_t *pairs, uint64_t *spare, uint32_t count, uint32_t varying) {
  if (varying == 0) return pairs;
  const uint32_t low = (uint32_t)__builtin_ctz(varying);
  const uint32_t bits = 32 - low - (uint32_t)__builtin_clz(varying);
  uint32_t most = 32 - (uint32_t)__builtin_clz(count);
  if (most < DIGIT_BITS_MIN) most = DIGIT_BITS_MIN;
  if (most > DIGIT_BITS_MAX) most = DIGIT_BITS_MAX;
  const uint32_t passes = (bits + most - 1) / most;
  const uint32_t digit = (bits + passes - 1) / passes;
  for (uint32_t pass = 0; pass < passes; pass++) {
    scatter(pairs, spare, count, 32 + low + pass * digit, digit);
    uint64_t *swap = pairs;
    pairs = spare;
    spare = swap;
  }
  return pairs;
}

static int32_t plan_blocks(const uint32_t *restrict local_ids, const uint32_t *restrict remote_ids, uint32_t count,
                           const double *restrict local_bases, const double *restrict remote_bases, uint32_t layers,
                           double local_stride, double remote_stride, double block_bytes, double *restrict out,
                           uint32_t capacity, uint8_t *restrict scratch) {
  uint64_t *pairs = (uint64_t *)scratch;
  uint64_t *spare = pairs + count;
  uint32_t varying = 0;
  bool in_order = true;
  for (uint32_t i = 0; i < count; i++) {
    pairs[i] = (uint64_t)local_ids[i] << 32 | remote_ids[i];
    varying |= local_ids[i] ^ local_ids[0];
  }
  for (uint32_t i = 1; i < count; i++) in_order &= local_ids[i - 1] <= local_ids[i];
  const uint64_t *sorted = sort_pairs(pairs, spare, count, in_order ? 0 : varying);
  uint32_t *starts = (uint32_t *)(sorted == pairs ? spare : pairs);
  const bool joins = block_bytes == local_stride && block_bytes == remote_stride;
  uint32_t rows = 0;
  for (uint32_t i = 0; i < count; i++) {
    starts[rows] = i;
    rows += !joins || i == 0 || sorted[i] != sorted[i - 1] + (1ull << 32 | 1);
  }
  if ((uint64_t)rows * layers > capacity) return NO_ROOM;
  double *locals = (double *)(scratch + (uint64_t)count * 16);
  double *remotes = locals + rows;
  double *sizes = remotes + rows;
  for (uint32_t row = 0; row < rows; row++) {
    const uint32_t start = starts[row];
    const uint32_t next = row + 1 < rows ? starts[row + 1] : count;
    locals[row] = (double)(sorted[start] >> 32) * local_stride;
    remotes[row] = (double)(uint32_t)sorted[start] * remote_stride;
    sizes[row] = (double)(next - start) * block_bytes;
  }
  for (uint32_t layer = 0; layer < layers; layer++) {
    double *to = out + (uint64_t)layer * rows;
    shift(locals, to, rows, local_bases[layer]);
    shift(remotes, to + capacity, rows, remote_bases[layer]);
    memcpy(to + 2ull * capacity, sizes, rows * sizeof *sizes);
  }
  return (int32_t)(rows * layers);
}

typedef struct {
  double local_stride, remote_stride, block_bytes;
  uint32_t local_ids, remote_ids, count, local_bases, remote_bases, layers, out, capacity, scratch, unused;
} BlocksJob;

#define AT(type, address) ((type *)(memory + (address)))
#define JOB(type) AT(const type, (uint32_t)argument[0])

static napi_value plan_whole_blocks(napi_env env, napi_callback_info info) {
  read_arguments(env, info);
  const BlocksJob *job = JOB(BlocksJob);
  return number(env, plan_blocks(AT(uint32_t, job->local_ids), AT(uint32_t, job->remote_ids), job->count,
                                 AT(double, job->local_bases), AT(double, job->remote_bases), job->layers,
                                 job->local_stride, job->remote_stride, job->block_bytes, AT(double, job->out),
                                 job->capacity, AT(uint8_t, job->scratch)));
}

// Parts.

typedef struct {
  double base, block_stride, unit_stride, head_stride, bytes, block_units, page_units, head_first, head_count, block_count;
  double spare, context_ranks, context_rank, interleave_units;
} Part;

typedef struct {
  const uint32_t *entry;
  uint32_t page, slot, pages, page_units;
  double base, block_stride, unit_stride, head_stride;
} Walker;

static Walker walker(const Part *part, const uint32_t *blocks, uint32_t unit, double head) {
  const uint32_t block_units = (uint32_t)part->block_units;
  const uint32_t page_units = (uint32_t)part->page_units;
  return (Walker){
      .entry = blocks + unit / block_units,
      .page = unit % block_units / page_units,
      .slot = unit % page_units,
      .pages = block_units / page_units,
      .page_units = page_units,
      .base = part->base + (head - part->head_first) * part->head_stride,
      .block_stride = part->block_stride,
      .unit_stride = part->unit_stride,
      .head_stride = part->head_stride,
  };
}

static double place(const Walker *at) {
  return at->base + ((double)*at->entry * at->pages + at->page) * at->block_stride + at->slot * at->unit_stride;
}

static void advance(Walker *at, uint32_t units) {
  at->slot += units;
  if (at->slot < at->page_units) return;
  at->slot = 0;
  if (++at->page < at->pages) return;
  at->page = 0;
  at->entry++;
}

static int64_t plan_part(const Part *local, const Part *remote, double head, uint32_t heads, const uint32_t *local_blocks,
                         uint32_t local_unit, const uint32_t *remote_blocks, uint32_t remote_unit, uint32_t units,
                         double *restrict locals, int64_t count, uint32_t capacity) {
  double *restrict remotes = locals + capacity;
  double *restrict sizes = remotes + capacity;
  Walker here = walker(local, local_blocks, local_unit, head);
  Walker there = walker(remote, remote_blocks, remote_unit, head);
  const bool units_outside = here.unit_stride >= here.head_stride;
  while (units > 0) {
    uint32_t piece = units;
    if (piece > here.page_units - here.slot) piece = here.page_units - here.slot;
    if (piece > there.page_units - there.slot) piece = there.page_units - there.slot;
    double local_at = place(&here);
    double remote_at = place(&there);
    uint32_t inner = units_outside ? heads : piece;
    uint32_t outer = units_outside ? piece : heads;
    double local_inner = units_outside ? here.head_stride : here.unit_stride;
    double remote_inner = units_outside ? there.head_stride : there.unit_stride;
    const double local_outer = units_outside ? here.unit_stride : here.head_stride;
    const double remote_outer = units_outside ? there.unit_stride : there.head_stride;
    double size = local->bytes;
    if (inner == 1 || (local_inner == size && remote_inner == size)) {
      size *= inner;
      inner = outer;
      local_inner = local_outer;
      remote_inner = remote_outer;
      outer = 1;
      if (inner == 1 || (local_inner == size && remote_inner == size)) {
        size *= inner;
        inner = 1;
      }
    }
    for (uint32_t i = 0; i < outer; i++, local_at += local_outer, remote_at += remote_outer) {
      uint32_t k = 0;
      const int64_t last = count - 1;
      if (count > 0 && locals[last] + sizes[last] == local_at && remotes[last] + sizes[last] == remote_at) {
        sizes[last] += size;
        k = 1;
      }
      if (count + (inner - k) > capacity) return NO_ROOM;
      for (; k < inner; k++, count++) {
        locals[count] = local_at + k * local_inner;
        remotes[count] = remote_at + k * remote_inner;
        sizes[count] = size;
      }
    }
    units -= piece;
    advance(&here, piece);
    advance(&there, piece);
  }
  return count;
}

/** Whether two parts differ in nothing but the base. */
static bool lies_alike(const Part *part, const Part *other) {
  return part->block_stride == other->block_stride && part->unit_stride == other->unit_stride &&
         part->head_stride == other->head_stride && part->bytes == other->bytes &&
         part->block_units == other->block_units && part->page_units == other->page_units &&
         part->head_first == other->head_first && part->head_count == other->head_count;
}

typedef struct {
  uint32_t local_parts, remote_parts, part_count, local_blocks, local_count, local_first_unit;
  uint32_t remote_blocks, remote_count, remote_first_unit, from, to, out, count, capacity;
} PartsJob;

static napi_value plan_parts(napi_env env, napi_callback_info info) {
  read_arguments(env, info);
  const PartsJob *job = JOB(PartsJob);
  const Part *local = AT(Part, job->local_parts);
  const Part *remote = AT(Part, job->remote_parts);
  const uint32_t *local_blocks = AT(uint32_t, job->local_blocks);
  const uint32_t *remote_blocks = AT(uint32_t, job->remote_blocks);
  const uint32_t part_count = job->part_count;
  const uint32_t units = job->to - job->from;
  const uint32_t local_unit = job->from - job->local_first_unit;
  const uint32_t remote_unit = job->from - job->remote_first_unit;
  const uint32_t capacity = job->capacity;
  double *locals = AT(double, job->out);
  double *remotes = locals + capacity;
  double *sizes = remotes + capacity;
  int64_t count = job->count;
  const Part *pattern = NULL;
  const Part *pattern_peer = NULL;
  int64_t pattern_row = 0;
  int64_t pattern_rows = 0;
  for (uint32_t i = 0; i < part_count && count >= 0; i++, local++, remote++) {
    const double local_to = local->head_first + local->head_count;
    const double remote_to = remote->head_first + remote->head_count;
    const double first = local->head_first > remote->head_first ? local->head_first : remote->head_first;
    const double heads = (local_to < remote_to ? local_to : remote_to) - first;
    if (heads <= 0) continue;
    if (pattern && lies_alike(local, pattern) && lies_alike(remote, pattern_peer)) {
      const double local_step = local->base - pattern->base;
      const double remote_step = remote->base - pattern_peer->base;
      const int64_t last = count - 1;
      const bool goes_on = locals[last] + sizes[last] == locals[pattern_row] + local_step &&
                           remotes[last] + sizes[last] == remotes[pattern_row] + remote_step;
      if (!goes_on) {
        if (count + pattern_rows > capacity) return number(env, NO_ROOM);
        shift(locals + pattern_row, locals + count, pattern_rows, local_step);
        shift(remotes + pattern_row, remotes + count, pattern_rows, remote_step);
        memcpy(sizes + count, sizes + pattern_row, (size_t)pattern_rows * sizeof *sizes);
        count += pattern_rows;
        continue;
      }
    }
    const int64_t before = count;
    const double bytes = before > 0 ? sizes[before - 1] : 0;
    const bool outside = heads > 1 && local->head_stride > local->block_stride;
    for (double head = 0; head < (outside ? heads : 1) && count >= 0; head++) {
      count = plan_part(local, remote, first + head, outside ? 1 : (uint32_t)heads, local_blocks, local_unit,
                        remote_blocks, remote_unit, units, locals, count, capacity);
    }
    const bool grew = before > 0 && sizes[before - 1] != bytes;
    pattern = grew ? NULL : local;
    pattern_peer = grew ? NULL : remote;
    pattern_row = before;
    pattern_rows = count - before;
  }
  return number(env, (double)count);
}

NAPI_MODULE_INIT() {
  const struct { const char *name; napi_callback call; } functions[] = {
      {"attach", attach},
      {"copyRuns", copy_runs},
      {"planWholeBlocks", plan_whole_blocks},
      {"planParts", plan_parts},
  };
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    napi_value function;
    napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH, functions[i].call, NULL, &function);
    napi_set_named_property(env, exports, functions[i].name, function);
  }
  return exports;
}
