internal import CallBus
internal import Glibc
internal import Synchronization

/// The thread that drives the connection, over one link after another. Except for connecting, it calls the library only
/// while it holds `hands`.
///
/// The library runs in its event-loop mode, in which it has no threads and no flush delay. A turn reads and delivers
/// what has arrived, then sends what others have queued, in one write. While the thread polls, a sender writes from its
/// own thread: see `sendInPlace`.
///
/// `@unchecked Sendable`: `hands` guards all properties that are not marked as shared.
final class ConnectionThread: @unchecked Sendable {
  struct Entry {
    /// nil if the link broke before it was subscribed.
    var library: LibrarySubscription?
    var subscription: NATSSubscription
  }

  let options: NATSOptions
  let requests = PendingRequests()
  let outbox: Outbox
  let poll: EventPoll
  /// Runs actors after the thread has read and before it writes: one that answers messages wakes no other thread.
  let executor: GuestExecutor
  let timers: BusTimers
  let actorThread: ActorThread

  // Shared with other threads.
  let counters = Counters()
  let observers = Mutex<[any ConnectionObserver]>([])
  let readCompleteHandlers = Mutex<[@Sendable () -> Void]>([])
  /// Held by the thread whenever it is not polling, and by a thread that sends in its place.
  let hands = Mutex<Void>(())
  /// The thread that holds `hands`, or held it last.
  let holder = Atomic<UInt>(0)
  let closing = Atomic(false)
  /// The reason that was reported last in the present outage.
  private let outageReason = Mutex<String?>(nil)
  let closeWaiters = Mutex<(finished: Bool, waiters: [@Sendable () -> Void])>((false, []))

  private var thread: UInt = 0
  private var url = ""
  private var name = ""
  var link: Link?
  var reconnecting: Reconnecting?
  /// Why no further link will be opened.
  var refusal: BusError?
  var entries: [Entry] = []
  /// Operations taken from the outbox; those before `position` are done.
  var backlog: [Operation] = []
  var position = 0
  let reclaimer = MessageReclaimer()
  var lastMessagesIn: UInt64 = 0
  private var links = 0
  private var adoptedAt = ContinuousClock.now
  private var seenLinks = 0
  private var seenAttached = false
  var watchesWrites = false
  var closeDeadline: ContinuousClock.Instant?
  /// When requests and writes are looked at again.
  private var nextLook = ContinuousClock.now
  var lastFailureReport: ContinuousClock.Instant?

  init(options: NATSOptions) {
    self.options = options
    let poll = EventPoll()
    self.poll = poll
    let outbox = Outbox(
      messagesMax: options.outboxMessagesMax, bytesMax: options.outboxBytesMax,
      wake: { poll.wake() })
    self.outbox = outbox
    executor = GuestExecutor { _ in outbox.wakeIfAsleep() }
    timers = BusTimers(outbox)
    actorThread = ActorThread(
      executor: executor, taskExecutor: executor, timers: timers)
  }

  var isAttached: Bool { link?.state.isAttached ?? false }
  var mustWrite: Bool { link?.state.mustWrite ?? false }
  /// Whether there is a connection, and the observers have been notified of it.
  var isUsable: Bool { isAttached && seenAttached && links == seenLinks }

  // MARK: From other threads

  /// Sends what is queued, then ends the thread. `completion` is called once it has.
  func close(_ completion: @escaping @Sendable () -> Void) {
    let finished = closeWaiters.withLock { state in
      if !state.finished { state.waiters.append(completion) }
      return state.finished
    }
    if finished { completion() }
    outbox.close()
    closing.store(true, ordering: .releasing)
    poll.wake()
  }

  // MARK: The thread

  /// Connects, reports the result, and runs until `close`.
  func run(url: String, name: String, started: (Result<Void, any Error>) -> Void) {
    thread = pthread_self()
    (self.url, self.name) = (url, name)
    holder.store(thread, ordering: .releasing)
    // A timeout of 0: the first turn does not wait.
    var timeout: Int32? = hands.withLock { _ in
      do throws(ConnectFailure) {
        adopt(try openConnection(for: self, url: url, name: name))
        noticeAttachments()
        started(.success(()))
        return 0
      } catch {
        outbox.close()
        started(.failure(error.reason))
        return nil
      }
    }
    while let milliseconds = timeout {
      let isReadable = poll.wait(milliseconds: milliseconds)
      timeout = hands.withLock { _ in
        holder.store(thread, ordering: .releasing)
        return turn(isReadable)
      }
    }
  }

  /// Reports why there is no connection. Attempts follow each other five times a second, so only a reason that differs
  /// from the last one is news.
  func reportOutage(_ reason: String) {
    let isNews = outageReason.withLock { last in
      defer { last = reason }
      return last != reason
    }
    if isNews { options.onEvent(.failure(reason)) }
  }

  /// Runs one turn. Returns how many milliseconds to poll for; nil at the end.
  private func turn(_ isReadable: Bool) -> Int32? {
    outbox.awake()
    adoptNext()
    noticeAttachments()
    if isAttached, isReadable {
      link?.processRead()
      deliver()
    }
    executor.run()
    if isAttached {
      if mustWrite { flush() }
      drain()
    }
    if isFinished {
      finish()
      return nil
    }
    noticeAttachments()
    reconnectIfBroken()
    let next = expire()
    let blocked = !isAttached || mustWrite
    // In this order: what comes in between either finds the thread asleep and wakes it, or is seen here.
    let sleeps = outbox.sleeps(evenWithWork: blocked) && isIdle
    return sleeps ? Self.milliseconds(until: next) : 0
  }

  /// Whether neither executor nor timers have work for the thread. Check this after the outbox has been marked as
  /// sleeping, not before.
  var isIdle: Bool { executor.isEmpty && !timers.areArmedAnew }

  /// Handles what is due. Returns the next deadline.
  ///
  /// Timers are checked in each turn. Requests and writes have deadlines of seconds: a busy thread checks them every 20
  /// ms.
  private func expire() -> ContinuousClock.Instant? {
    let now = ContinuousClock.now
    var next = timers.expire(now: now)
    if nextLook <= now {
      nextLook = now + .milliseconds(20)
      var found = requests.expire(now: now)
      for observer in observers.withLock({ $0 }) {
        if let wanted = observer.expire(now: now) {
          found = min(found ?? wanted, wanted)
        }
      }
      if let found { next = min(next ?? found, found) }
    } else {
      // Deadlines set since the last check are not known yet.
      next = min(next ?? nextLook, nextLook)
    }
    if let closeDeadline { next = min(next ?? closeDeadline, closeDeadline) }
    return next
  }

  /// At most a quarter of a second: another thread may have sent a write meanwhile, whose deadline is not known here.
  private static func milliseconds(until deadline: ContinuousClock.Instant?) -> Int32 {
    let longest = Duration.milliseconds(250)
    let parts = min(max((deadline ?? .now + longest) - .now, .zero), longest).components
    return Int32(parts.seconds * 1000 + parts.attoseconds / 1_000_000_000_000_000 + 1)
  }

  // MARK: Links

  /// Uses a link that has been opened. At the beginning of a turn, so that what waits is sent over it.
  private func adoptNext() {
    switch reconnecting?.takeOutcome() {
    case .opened(let next)?:
      reconnecting = nil
      adopt(next)
    case .refused(let error)?:
      reconnecting = nil
      refusal = error
    case nil: break
    }
  }

  private func reconnectIfBroken() {
    guard !isAttached, reconnecting == nil, refusal == nil, !closing.load(ordering: .acquiring)
    else {
      return
    }
    if let reason = link?.breakReason { reportOutage(reason) }
    reconnecting = Reconnecting(
      for: self, url: url, name: name, lost: counters.server.withLock { $0 },
      pauses: ContinuousClock.now - adoptedAt < .seconds(1))
  }

  /// Uses a link from now on.
  private func adopt(_ next: consuming Link) {
    dropLink()
    link = consume next
    links += 1
    adoptedAt = .now
    lastMessagesIn = 0
    link?.state.poll()
    for index in entries.indices { open(&entries[index]) }
  }

  func dropLink() {
    for index in entries.indices { entries[index].library = nil }
    link = nil
  }

  /// Notifies the observers of what has happened to the link since the last turn.
  private func noticeAttachments() {
    let attached = isAttached
    guard attached != seenAttached || links != seenLinks else { return }
    if seenAttached {
      for observer in observers.withLock({ $0 }) { observer.disconnected() }
      counters.connected.store(false, ordering: .relaxed)
      options.onEvent(.disconnected)
    }
    seenAttached = attached
    watchesWrites = false
    guard attached else { return }
    let isFirst = seenLinks == 0
    seenLinks = links
    let server = link?.server ?? ""
    counters.server.withLock { $0 = server }
    counters.connected.store(true, ordering: .relaxed)
    outageReason.withLock { $0 = nil }
    if isFirst {
      options.onEvent(.connected(server: server))
    } else {
      counters.reconnects.add(1, ordering: .relaxed)
      options.onEvent(.reconnected(server: server))
      for observer in observers.withLock({ $0 }) { observer.reconnected() }
    }
  }
}
