// Raddle for C++: pools, threads and scopes that clean up after themselves. Needs C++17; the functions are those of raddle.h.
//
//     c++ -std=c++17 server.cc $(pkg-config --cflags --libs raddle)
//
// std::thread, std::mutex, std::condition_variable and so on need no header of ours: in a program that is linked with libraddle
// they are lightweight. What is here is what they have no words for.
#ifndef RADDLE_HPP
#define RADDLE_HPP

#include "raddle.h"

#include <cxxabi.h>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace raddle {

// std's mutex and guards are lightweight as they are.
using std::lock_guard;
using std::mutex;
using std::unique_lock;

// A set of processors under one policy. Its destructor waits until its threads have ended.
class pool {
public:
    // So many processors (0: as many as cores) under a policy such as "priority(3, steal)". Throws std::invalid_argument with the
    // text that names cause and remedy.
    explicit pool(unsigned processors = 0, const char *policy = nullptr) : pool_(raddle_pool_create(processors, policy)) {
        if (!pool_) throw std::invalid_argument(raddle_error());
    }
    ~pool() { raddle_pool_destroy(pool_); }
    pool(const pool &) = delete;
    pool &operator=(const pool &) = delete;

    unsigned processors() const { return raddle_pool_processors(pool_); }
    raddle_pool *native_handle() const { return pool_; }

private:
    raddle_pool *pool_;
};

// A lock of raddle.h. Its guard unlocks at the end of the block, also when an exception passes.
class lock {
public:
    explicit lock(const char *algorithm = "fair") : lock_(raddle_lock_create(algorithm)) {
        if (!lock_) throw std::invalid_argument(raddle_error());
    }
    ~lock() { raddle_lock_destroy(lock_); }
    lock(const lock &) = delete;
    lock &operator=(const lock &) = delete;

    class guard {
    public:
        explicit guard(lock &of) : lock_(of.lock_) { raddle_lock_acquire(lock_, &place_); }
        ~guard() { raddle_lock_release(lock_, &place_); }
        guard(const guard &) = delete;
        guard &operator=(const guard &) = delete;

    private:
        raddle_lock *lock_;
        raddle_place place_;
    };

private:
    raddle_lock *lock_;
};

// A lock of raddle.h to which work can be left by who must not wait.
class deferred {
public:
    explicit deferred(size_t most) : deferred_(raddle_deferred_create(most)) {}
    ~deferred() { raddle_deferred_destroy(deferred_); }
    deferred(const deferred &) = delete;
    deferred &operator=(const deferred &) = delete;

    class guard {
    public:
        explicit guard(deferred &of) : deferred_(of.deferred_) { raddle_deferred_acquire(deferred_, &place_); }
        ~guard() { raddle_deferred_release(deferred_, &place_); }
        guard(const guard &) = delete;
        guard &operator=(const guard &) = delete;

    private:
        raddle_deferred *deferred_;
        raddle_place place_;
    };

    // As raddle_deferred_do: 0, EINPROGRESS or EAGAIN.
    int do_or_leave(raddle_work &room, void (*work)(void *), void *argument) {
        return raddle_deferred_do(deferred_, &room, work, argument);
    }

private:
    raddle_deferred *deferred_;
};

// A thread, of the caller's pool or in a pool with a priority. Unlike std::thread it is joined by its destructor, and an exception that its function throws
// comes out of join().
class thread {
public:
    thread() = default;

    // As std::thread's: in the caller's pool.
    template <class F, class... Arguments,
              class = std::enable_if_t<std::is_invocable_v<std::decay_t<F>, std::decay_t<Arguments>...>>>
    explicit thread(F &&function, Arguments &&...arguments) : state_(std::make_unique<state>()) {
        start(nullptr, 0, bound(std::forward<F>(function), std::forward<Arguments>(arguments)...));
    }

    template <class F, class... Arguments>
    explicit thread(pool &in, int priority, F &&function, Arguments &&...arguments)
        : state_(std::make_unique<state>()) {
        start(&in, priority, bound(std::forward<F>(function), std::forward<Arguments>(arguments)...));
    }

    thread(thread &&) noexcept = default;
    thread &operator=(thread &&other) noexcept {
        if (this != &other) {
            end();
            state_ = std::move(other.state_);
        }
        return *this;
    }
    ~thread() { end(); }

    bool joinable() const { return state_ != nullptr; }

    // Waits for the thread's end; throws what its function threw.
    void join() {
        if (!state_) throw std::system_error(std::make_error_code(std::errc::invalid_argument), "raddle::thread::join");
        auto state = std::move(state_);
        pthread_join(state->id, nullptr);
        if (state->thrown) std::rethrow_exception(state->thrown);
    }

private:
    struct any_work {
        virtual ~any_work() = default;
        virtual void run() = 0;
    };
    template <class F>
    struct work final : any_work {
        explicit work(F f) : function(std::move(f)) {}
        void run() override { function(); }
        F function;
    };
    struct state {
        pthread_t id{};
        std::unique_ptr<any_work> work;
        std::exception_ptr thrown;
    };

    // A call that owns what it is made with.
    template <class F, class... Arguments>
    static std::unique_ptr<any_work> bound(F &&function, Arguments &&...arguments) {
        auto call = [function = std::decay_t<F>(std::forward<F>(function)),
                     arguments = std::make_tuple(std::forward<Arguments>(arguments)...)]() mutable {
            std::apply(std::move(function), std::move(arguments));
        };
        return std::make_unique<work<decltype(call)>>(std::move(call));
    }

    static void *body(void *argument) {
        auto *own = static_cast<state *>(argument);
        try {
            own->work->run();
        }
#ifdef __GLIBCXX__
        // Cancellation and pthread_exit unwind by an exception of the library's that must go on.
        catch (abi::__forced_unwind &) {
            throw;
        }
#endif
        catch (...) {
            own->thrown = std::current_exception();
        }
        own->work.reset();
        return nullptr;
    }

    void start(pool *in, int priority, std::unique_ptr<any_work> work) {
        state_->work = std::move(work);
        int error = in ? raddle_thread_create(&state_->id, nullptr, in->native_handle(), priority, body, state_.get())
                       : pthread_create(&state_->id, nullptr, body, state_.get());
        if (error != 0) throw std::system_error(error, std::generic_category(), in ? raddle_error() : "raddle::thread");
    }

    void end() {
        if (auto state = std::move(state_)) pthread_join(state->id, nullptr);
    }

    std::unique_ptr<state> state_;
};

// Threads that end with the block: its destructor joins those that were not joined.
class scope {
public:
    explicit scope(pool &in) : pool_(in) {}
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;
    ~scope() = default;

    // The priority of the caller: give one with spawn_at.
    template <class F>
    void spawn(F &&function) {
        spawn_at(-1, std::forward<F>(function));
    }
    template <class F>
    void spawn_at(int priority, F &&function) {
        threads_.emplace_back(pool_, priority, std::forward<F>(function));
    }

    // Waits for all; throws what the first of them threw, once all have ended.
    void join() {
        auto threads = std::move(threads_);
        threads_.clear();
        std::exception_ptr first;
        for (auto &thread : threads) {
            try {
                thread.join();
            } catch (...) {
                if (!first) first = std::current_exception();
            }
        }
        if (first) std::rethrow_exception(first);
    }

private:
    pool &pool_;
    std::vector<thread> threads_;
};

} // namespace raddle

#endif
