// Swift's Mutex is a futex with priority inheritance. Where a thread has to wait, the kernel hands the lock over, and the
// thread sanitizer sees neither the unlock nor the lock: it then reports a race in every correct program (Swift 6.3).
// Preloaded, this tells it. deploy/dev/sanitize.sh builds it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

#define HANDLE "$s15Synchronization12_MutexHandleV"
#define LOCK_SLOW HANDLE "9_lockSlowyys6UInt32VF"
#define UNLOCK_SLOW HANDLE "11_unlockSlowyyF"
#define SELF __attribute__((swift_context)) void *

typedef __attribute__((swiftcall)) void LockSlow(uint32_t, SELF);
typedef __attribute__((swiftcall)) void UnlockSlow(SELF);
typedef void Order(void *);

static LockSlow *lockSlow;
static UnlockSlow *unlockSlow;
static Order *acquire, *release;

__attribute__((constructor)) static void find(void) {
  lockSlow = (LockSlow *)dlsym(RTLD_NEXT, LOCK_SLOW);
  unlockSlow = (UnlockSlow *)dlsym(RTLD_NEXT, UNLOCK_SLOW);
  acquire = (Order *)dlsym(RTLD_DEFAULT, "__tsan_acquire");
  release = (Order *)dlsym(RTLD_DEFAULT, "__tsan_release");
}

LockSlow lockWithOrder __asm__(LOCK_SLOW);
UnlockSlow unlockWithOrder __asm__(UNLOCK_SLOW);

__attribute__((swiftcall)) void lockWithOrder(uint32_t thread, SELF mutex) {
  lockSlow(thread, mutex);
  if (acquire) acquire(mutex);
}

__attribute__((swiftcall)) void unlockWithOrder(SELF mutex) {
  if (release) release(mutex);
  unlockSlow(mutex);
}
