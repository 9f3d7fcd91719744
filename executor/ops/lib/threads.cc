// The pool of helper threads that the pieces of a large op run on.
#include "ops/lib/threads.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"

namespace opstep {
namespace {

constexpr int64_t kMost = 256;

std::atomic<int> count{1};

// Inside a piece everything runs on the piece's own thread.
thread_local bool in_piece = false;

// -1 if the system does not tell.
int CurrentCore() {
#if defined(__linux__)
  return sched_getcpu();
#else
  return -1;
#endif
}

// Moves this thread to another core than `core` if it runs there. A woken thread may be put on the
// core of the thread that woke it, and Linux can leave both there for many ops while another core
// is idle.
void Leave(int core) {
#if defined(__linux__)
  if (core < 0 || CurrentCore() != core) return;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) return;
  cpu_set_t others = allowed;
  CPU_CLR(core, &others);
  if (sched_setaffinity(0, sizeof others, &others) == 0) {
    sched_setaffinity(0, sizeof allowed, &allowed);
  }
#endif
}

// The work of one RunPieces. It lives on the caller's stack.
struct Job {
  const PieceFn call;
  const void* const f;
  const int64_t n;
  const int core;  // of the caller
  std::atomic<int64_t> next{0};
  // At work now; changed below the pool's lock.
  std::atomic<int64_t> helpers{0};
  // Below the pool's lock:
  int64_t helpers_wanted = 0;
  std::exception_ptr error;

  Job(PieceFn call, const void* f, int64_t n, int64_t helpers)
      : call(call), f(f), n(n), core(CurrentCore()), helpers_wanted(helpers) {}
  bool open() const { return helpers_wanted > 0 && next.load(std::memory_order_relaxed) < n; }
};

// How long to spin, in turns of some ten nanoseconds. The caller of a job sleeps soon: it may
// occupy the core of the helper that it waits for. A helper spins from one op of a run to the next:
// in a virtual machine a sleeping thread wakes so late that its job is already done.
constexpr int kCallerSpins = 1000;
constexpr int kHelperSpins = 20000;

template <typename Condition>
void SpinUntil(int spins, const Condition& condition) {
  for (int i = 0; i < spins && !condition(); ++i) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
}

// Threads that help the threads which run ops. Each is made at its first use and then waits in
// `Help` for the next job, spinning for a short time; it ends with the process. The caller of a job
// works too and waits only for helpers in the middle of a piece: a helper that the system does not
// run delays nobody, unlike at an OpenMP barrier.
class Pool {
 public:
  void Run(Job& job) {
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(&job);
      const int64_t wanted = job.helpers_wanted;
      try {
        for (; helpers_ < wanted; ++helpers_) std::thread([this] { Help(); }).detach();
      } catch (const std::system_error&) {
        // The system gives no more threads: go on with fewer.
      }
    }
    posted_.fetch_add(1, std::memory_order_relaxed);
    posted_signal_.notify_all();
    Work(job);
    std::unique_lock lock(mutex_);
    jobs_.erase(std::find(jobs_.begin(), jobs_.end(), &job));
    const auto done = [&] { return job.helpers == 0; };
    if (done()) return;
    lock.unlock();
    SpinUntil(kCallerSpins, done);
    lock.lock();
    done_signal_.wait(lock, done);
  }

 private:
  void Work(Job& job) {
    in_piece = true;
    for (int64_t i; (i = job.next.fetch_add(1, std::memory_order_relaxed)) < job.n;) {
      try {
        job.call(job.f, i);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (job.error == nullptr) job.error = std::current_exception();
      }
    }
    in_piece = false;
  }

  [[noreturn]] void Help() {
    std::unique_lock lock(mutex_);
    while (true) {
      Job* job = FindOpen();
      if (job == nullptr) {
        const uint64_t seen = posted_.load(std::memory_order_relaxed);
        lock.unlock();
        SpinUntil(kHelperSpins, [&] { return posted_.load(std::memory_order_relaxed) != seen; });
        lock.lock();
        posted_signal_.wait(lock, [&] { return (job = FindOpen()) != nullptr; });
      }
      --job->helpers_wanted;
      ++job->helpers;
      lock.unlock();
      Leave(job->core);
      Work(*job);
      lock.lock();
      if (--job->helpers == 0) done_signal_.notify_all();
    }
  }

  // A job with pieces left, or null. Below the lock; it may run out of pieces at any moment.
  Job* FindOpen() const {
    const auto it =
        std::find_if(jobs_.begin(), jobs_.end(), [](const Job* job) { return job->open(); });
    return it == jobs_.end() ? nullptr : *it;
  }

  std::mutex mutex_;
  std::condition_variable posted_signal_, done_signal_;
  std::atomic<uint64_t> posted_{0};
  std::vector<Job*> jobs_;
  int64_t helpers_ = 0;
};

// Never deleted: its threads use it until the process ends. A forked child has none of them and
// starts with its own pool.
std::atomic<Pool*> pool{new Pool};

const bool kAtFork = [] {
  pthread_atfork(nullptr, nullptr, [] {
    pool = new Pool;
    in_piece = false;
  });
  return true;
}();

}  // namespace

int NumThreads() { return count.load(std::memory_order_relaxed); }

void SetNumThreads(int64_t n) {
  OPSTEP_CHECK(n >= 1 && n <= kMost, "the number of threads is ", n, ": it must be 1 to ", kMost);
  count = static_cast<int>(n);
}

void RunPieces(int64_t n, PieceFn call, const void* f) {
  const int64_t helpers = std::min<int64_t>(NumThreads(), n) - 1;
  if (helpers <= 0 || in_piece) {
    for (int64_t i = 0; i < n; ++i) call(f, i);
    return;
  }
  Job job(call, f, n, helpers);
  pool.load()->Run(job);
  if (job.error != nullptr) std::rethrow_exception(job.error);
}

}  // namespace opstep
