// What a C program gets out of the same provider in the same way: two endpoints in one process, one thread that posts
// and polls both completion queues, delivery-complete writes, the same sizes and windows as src/cli/bench/native.ts.
//
//   baseline <provider>
//
// opens once, and then times a round for each line of its input,
//   <bytes of an operation> <operations of a batch> <batches under way> <batches> <batches posted alone>
// and answers with a line: {"seconds": of all batches, "cpuSeconds": the process's meanwhile, "waitedSeconds": in which it
// could run and had no core, in the whole round, "postMicros": median of posting one batch with nothing else under way}. Between rounds it sleeps.
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

enum { POSTS_MAX = 10000 };

static struct fid_cq *initiator_queue, *target_queue;
static struct fid_ep *initiator, *target;

static void check(ssize_t answer, const char *what) {
  if (answer == 0) return;
  fprintf(stderr, "baseline: %s: %s\n", what, fi_strerror((int)-answer));
  exit(3);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void open_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_av *av, struct fid_ep **ep, struct fid_cq **queue) {
  struct fi_cq_attr attributes = {.size = info->tx_attr->size, .format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_NONE};
  check(fi_cq_open(domain, &attributes, queue, NULL), "fi_cq_open");
  check(fi_endpoint(domain, info, ep, NULL), "fi_endpoint");
  check(fi_ep_bind(*ep, &av->fid, 0), "fi_ep_bind");
  check(fi_ep_bind(*ep, &(*queue)->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
  check(fi_enable(*ep), "fi_enable");
}

// Completions of the initiator since the last call.
static size_t reap(void) {
  struct fi_cq_entry entries[32];
  const ssize_t ours = fi_cq_read(initiator_queue, entries, 32);
  if (ours < 0 && ours != -FI_EAGAIN) check(ours, "fi_cq_read");
  const ssize_t theirs = fi_cq_read(target_queue, entries, 32);
  if (theirs < 0 && theirs != -FI_EAGAIN) check(theirs, "fi_cq_read");
  return ours > 0 ? (size_t)ours : 0;
}

static int by_size(const void *left, const void *right) {
  const double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

struct round {
  size_t bytes, operations, window, total, posts;
};

static uint8_t *memory;
static const size_t half = 32u << 20;
static fi_addr_t peer;
static void *descriptor;
static uint64_t there, key;

static double cpu_seconds(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

// Of its one thread: time in which it was ready and no core was free.
static double waited_seconds(void) {
  unsigned long long ran, waited = 0;
  FILE *file = fopen("/proc/self/schedstat", "r");
  if (file == NULL) check(-FI_ENOSYS, "/proc/self/schedstat");
  if (fscanf(file, "%llu %llu", &ran, &waited) != 2) check(-FI_ENOSYS, "/proc/self/schedstat");
  fclose(file);
  return (double)waited * 1e-9;
}

static ssize_t write_at(size_t at, size_t bytes) {
  return fi_write(initiator, memory + at, bytes, descriptor, peer, there + at, key, NULL);
}

// Seconds until all operations have ended.
static double move(const struct round *round) {
  const size_t places = half / round->bytes;
  const double started = now();
  for (size_t posted = 0, ended = 0; ended < round->total;) {
    while (posted < round->total && posted - ended < round->window) {
      const ssize_t answer = write_at(posted % places * round->bytes, round->bytes);
      if (answer == -FI_EAGAIN) break;
      check(answer, "fi_write");
      posted++;
    }
    ended += reap();
  }
  return now() - started;
}

// Median microseconds of posting one batch with nothing else under way.
static double post_alone(const struct round *round) {
  static double posts[POSTS_MAX];
  const size_t places = half / round->bytes;
  for (size_t each = 0; each < round->posts; each++) {
    size_t ended = 0;
    const double started = now();
    for (size_t i = 0; i < round->operations; i++) {
      ssize_t answer;
      while ((answer = write_at(i % places * round->bytes, round->bytes)) == -FI_EAGAIN) ended += reap();
      check(answer, "fi_write");
    }
    posts[each] = (now() - started) * 1e6;
    while (ended < round->operations) ended += reap();
  }
  qsort(posts, round->posts, sizeof *posts, by_size);
  return round->posts > 0 ? posts[round->posts / 2] : 0;
}

static void serve(const struct round *round) {
  const double waited = waited_seconds(), cpu = cpu_seconds();
  const double seconds = move(round);
  const double cpu_after = cpu_seconds();
  const double micros = post_alone(round);
  const double waited_after = waited_seconds();
  for (size_t at = 0; at < half; at += 4096)
    if (memory[half + at] != 1) check(-FI_EOTHER, "the bytes");
  printf("{\"seconds\": %.9f, \"cpuSeconds\": %.6f, \"waitedSeconds\": %.9f, \"postMicros\": %.3f}\n", seconds, cpu_after - cpu,
         waited_after - waited, micros);
  fflush(stdout);
}

// The two know each other after a first write; then the names of their files in /dev/shm can go, and nothing stays of a process
// that is killed.
static void forget_names(void) {
  const struct round first = {.bytes = 8, .operations = 1, .window = 1, .total = 1};
  move(&first);
  struct fid_ep *ends[] = {initiator, target};
  for (size_t each = 0; each < 2; each++) {
    char name[512] = "";
    size_t bytes = sizeof name - 1;
    check(fi_getname(&ends[each]->fid, name, &bytes), "fi_getname");
    const char *file = strstr(name, "fi_shm://") == name ? name + 9 : name;
    shm_unlink(file);
  }
}

static void open_all(const char *provider) {
  const int loopback = strncmp(provider, "tcp", 3) == 0;
  struct fi_info *hints = fi_allocinfo(), *info;
  hints->caps = FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
  hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
  hints->fabric_attr->prov_name = strdup(provider);
  check(fi_getinfo(FI_VERSION(1, 14), loopback ? "127.0.0.1" : NULL, NULL, loopback ? FI_SOURCE : 0, hints, &info), "fi_getinfo");

  struct fid_fabric *fabric;
  struct fid_domain *domain;
  struct fid_av *av;
  struct fi_av_attr book = {.type = FI_AV_TABLE};
  check(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
  check(fi_domain(fabric, info, &domain, NULL), "fi_domain");
  check(fi_av_open(domain, &book, &av, NULL), "fi_av_open");
  open_endpoint(domain, info, av, &target, &target_queue);
  open_endpoint(domain, info, av, &initiator, &initiator_queue);
  uint8_t name[512];
  size_t name_bytes = sizeof name;
  check(fi_getname(&target->fid, name, &name_bytes), "fi_getname");
  if (fi_av_insert(av, name, 1, &peer, 0, NULL) != 1) check(-FI_EADDRNOTAVAIL, "fi_av_insert");

  // As the engine does: huge pages, where there are any to be had.
  memory = aligned_alloc(2u << 20, 2 * half);
  madvise(memory, 2 * half, MADV_HUGEPAGE);
  memset(memory, 1, 2 * half);
  struct fid_mr *local, *remote;
  const uint64_t access = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
  check(fi_mr_reg(domain, memory, half, access, 0, 1, 0, &local, NULL), "fi_mr_reg");
  check(fi_mr_reg(domain, memory + half, half, access, 0, 2, 0, &remote, NULL), "fi_mr_reg");
  there = info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)(memory + half) : 0;
  descriptor = fi_mr_desc(local);
  key = fi_mr_key(remote);
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: baseline <provider>\n");
    return 2;
  }
  // libfabric's libraries take signals for themselves, and free memory in their handlers: one that comes while this process
  // allocates would leave it waiting for itself for ever. So they wait until it is open, and then end it as they would.
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, NULL);
  open_all(argv[1]);
  if (strcmp(argv[1], "shm") == 0) forget_names();
  for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
  sigprocmask(SIG_UNBLOCK, &all, NULL);
  struct round round;
  while (scanf("%zu %zu %zu %zu %zu", &round.bytes, &round.operations, &round.window, &round.total, &round.posts) == 5) {
    if (round.bytes == 0 || round.bytes > half || round.operations == 0 || round.posts > POSTS_MAX) return 2;
    round.window *= round.operations;
    round.total *= round.operations;
    serve(&round);
  }
  fi_close(&initiator->fid);
  fi_close(&target->fid);
  return 0;
}
