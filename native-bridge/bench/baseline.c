// What a C program gets out of the same provider in the same way: two endpoints in one process, one thread that posts
// and polls both completion queues, delivery-complete writes, the same sizes and windows as src/cli/bench/native.ts.
//
//   baseline <provider> <bytes of an operation> <operations of a batch> <batches under way> <batches>
//
// prints {"seconds": of all batches, "postMicros": median of posting one batch with nothing else under way}.
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { POSTS = 200 };

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

int main(int argc, char **argv) {
  if (argc != 6) {
    fprintf(stderr, "usage: baseline <provider> <bytes> <operations> <window> <batches>\n");
    return 2;
  }
  const char *provider = argv[1];
  const size_t bytes = strtoul(argv[2], NULL, 10), operations = strtoul(argv[3], NULL, 10);
  const size_t window = strtoul(argv[4], NULL, 10) * operations, total = strtoul(argv[5], NULL, 10) * operations;
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
  fi_addr_t peer;
  check(fi_getname(&target->fid, name, &name_bytes), "fi_getname");
  if (fi_av_insert(av, name, 1, &peer, 0, NULL) != 1) check(-FI_EADDRNOTAVAIL, "fi_av_insert");

  const size_t half = 32u << 20;
  // As the engine does: huge pages, where there are any to be had.
  uint8_t *memory = aligned_alloc(2u << 20, 2 * half);
  madvise(memory, 2 * half, MADV_HUGEPAGE);
  memset(memory, 1, 2 * half);
  struct fid_mr *local, *remote;
  const uint64_t access = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
  check(fi_mr_reg(domain, memory, half, access, 0, 1, 0, &local, NULL), "fi_mr_reg");
  check(fi_mr_reg(domain, memory + half, half, access, 0, 2, 0, &remote, NULL), "fi_mr_reg");
  const uint64_t there = info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)(memory + half) : 0;
  void *descriptor = fi_mr_desc(local);
  const uint64_t key = fi_mr_key(remote);
  const size_t places = half / bytes;

  size_t posted = 0, ended = 0;
  // The first operation makes the two ends know each other; then a round to warm up, then the one that counts.
  double seconds = 0;
  for (int round = 0; round < 2; round++) {
    const double started = now();
    for (posted = ended = 0; ended < total;) {
      while (posted < total && posted - ended < window) {
        const size_t at = posted % places * bytes;
        const ssize_t answer = fi_write(initiator, memory + at, bytes, descriptor, peer, there + at, key, NULL);
        if (answer == -FI_EAGAIN) break;
        check(answer, "fi_write");
        posted++;
      }
      ended += reap();
    }
    seconds = now() - started;
  }

  double posts[POSTS];
  for (int round = 0; round < POSTS; round++) {
    const double started = now();
    for (size_t i = 0; i < operations; i++) {
      const size_t at = i % places * bytes;
      ssize_t answer;
      while ((answer = fi_write(initiator, memory + at, bytes, descriptor, peer, there + at, key, NULL)) == -FI_EAGAIN) ended += reap();
      check(answer, "fi_write");
    }
    posts[round] = (now() - started) * 1e6;
    posted += operations;
    while (ended < posted) ended += reap();
  }
  qsort(posts, POSTS, sizeof *posts, by_size);

  for (size_t at = 0; at < half; at += 4096)
    if (memory[half + at] != 1) check(-FI_EOTHER, "the bytes");
  printf("{\"seconds\": %.9f, \"postMicros\": %.3f}\n", seconds, posts[POSTS / 2]);
  fi_close(&initiator->fid);
  fi_close(&target->fid);
  fi_close(&local->fid);
  fi_close(&remote->fid);
  return 0;
}
