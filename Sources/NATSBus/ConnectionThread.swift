internal import CNATS
internal import CallBus
internal import Glibc
internal import Synchronization

/// What follows the life of a connection. All calls come on the connection's thread.
protocol ConnectionObserver: AnyObject, Sendable {
  /// Does what is due; returns when to ask again.
  func expire(now: ContinuousClock.Instant) -> ContinuousClock.Instant?
  /// The connection broke: what was sent may have arrived or not.
  func disconnected()
  /// There is a connection again; subscriptions are in place.
  func reconnected()
}

/// The thread that works a connection: one link of the library after the other. The library is called with
/// `hands` held only, but for opening a link.
///
/// The library runs in its event-loop mode: no thread and no millisecond of flushing of its own.
/// A turn reads what has come and hands it over, then sends what others queued, in one write. While
/// the thread waits, who has something to send does that itself: see `sendInPlace`.
///
/// Fields without another note belong to who holds `hands`; that is what makes it safe to share.
final class ConnectionThread: @unchecked Sendable {
  struct Entry {
    /// The library's side of it; nil where the link broke before there was one.
    var raw: OpaquePointer?
    var subscription: NATSSubscription
    var dropped: Int64 = 0
  }

  let options: NATSOptions
  let requests = Requests()
  let outbox: Outbox
  let poll: EventPoll
  /// Jobs of actors that live on this thread: see `BusExecutor`.
  var jobs: ExecutorJobQueue { executor.jobs }
  let executor: BusExecutor
  let taskExecutor: BusTaskExecutor
  let timers: BusTimers

  // Shared with other threads.
  let counters = Counters()
  let observers = Mutex<[any ConnectionObserver]>([])
  let readCompleteHandlers = Mutex<[@Sendable () -> Void]>([])
  /// Held by the thread whenever it does not wait for events, and by who sends in its place.
  let hands = Mutex<Void>(())
  /// Who holds `hands`, or held them last.
  let holder = Atomic<UInt>(0)
  let closing = Atomic(false)
  let closeWaiters = Mutex<(finished: Bool, waiters: [@Sendable () -> Void])>((false, []))

  private var thread: UInt = 0
  private var url = ""
  private var name = ""
  private(set) var link: Link?
  var reopening: Reopening?
  /// Why there will be no further link.
  var refusal: BusError?
  var libraryStatistics: OpaquePointer?
  var entries: [Entry] = []
  /// What was taken from the outbox; before `position` it is sent.
  var backlog: [Operation] = []
  var position = 0
  let graveyard = MessageGraveyard()
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
    executor = BusExecutor(outbox)
    taskExecutor = BusTaskExecutor(executor)
    timers = BusTimers(outbox)
  }

  var connection: OpaquePointer? { link?.connection }
  var isAttached: Bool { link?.state.isAttached ?? false }
  var mustWrite: Bool { link?.state.mustWrite ?? false }
  /// Whether there is a connection, and observers were told.
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

  /// Connects, reports how that went, and works until it is told to close.
  func run(url: String, name: String, started: (Result<Void, any Error>) -> Void) {
    thread = pthread_self()
    (self.url, self.name) = (url, name)
    holder.store(thread, ordering: .releasing)
    // A timeout of 0: the first turn does not wait.
    var timeout: Int32? = hands.withLock { _ in
      do throws(ConnectFailure) {
        adopt(try openConnection(for: self, url: url, name: name))
        natsStatistics_Create(&libraryStatistics)
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
      let events = poll.wait(milliseconds: milliseconds)
      timeout = hands.withLock { _ in
        holder.store(thread, ordering: .releasing)
        return turn(events)
      }
    }
  }

  /// Does what there is to do. Returns how long to wait for more; nil at the end.
  private func turn(_ events: EventPoll.Events) -> Int32? {
    outbox.awake()
    adoptNext()
    noticeAttachments()
    if isAttached, events.readable {
      natsConnection_ProcessReadEvent(connection)
      deliver()
    }
    jobs.run(on: executor.asUnownedSerialExecutor())
    if isAttached {
      if mustWrite { flush() }
      drain()
    }
    if isFinished {
      finish()
      return nil
    }
    noticeAttachments()
    reopenIfBroken()
    let next = expire()
    let blocked = !isAttached || mustWrite
    // In this order: what comes now finds the thread asleep and wakes it, or is seen here.
    let sleeps = outbox.sleeps(evenWithWork: blocked) && isLeftToItself
    return sleeps ? Self.milliseconds(until: next) : 0
  }

  /// Whether only the outbox may still have work for the thread. Ask this after the thread has marked itself
  /// as asleep, not before.
  var isLeftToItself: Bool { jobs.isEmpty && !timers.areArmedAnew }

  /// Does what is due; returns when to do so again.
  ///
  /// Timers are looked at in each turn. Requests and writes wait for seconds: a busy thread looks at
  /// them every 20 ms.
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
      // What began since the last look is not known yet.
      next = min(next ?? nextLook, nextLook)
    }
    if let closeDeadline { next = min(next ?? closeDeadline, closeDeadline) }
    return next
  }

  private static func milliseconds(until deadline: ContinuousClock.Instant?) -> Int32 {
    guard let deadline else { return -1 }
    let parts = min(max(deadline - .now, .zero), .seconds(3600)).components
    return Int32(parts.seconds * 1000 + parts.attoseconds / 1_000_000_000_000_000 + 1)
  }

  // MARK: Links

  /// At the beginning of a turn, so that what waits is sent over it.
  private func adoptNext() {
    switch reopening?.take() {
    case .opened(let next)?:
      reopening = nil
      adopt(next)
    case .refused(let error)?:
      reopening = nil
      refusal = error
    case nil: break
    }
  }

  /// Sees that a link that broke is followed by another.
  private func reopenIfBroken() {
    guard !isAttached, reopening == nil, refusal == nil, !closing.load(ordering: .acquiring) else {
      return
    }
    if let complaint = link?.complaint { options.onEvent(.failure(complaint)) }
    reopening = Reopening(
      for: self, url: url, name: name, lost: counters.server.withLock { $0 },
      pauses: ContinuousClock.now - adoptedAt < .seconds(1))
  }

  /// From now on all goes over this link.
  private func adopt(_ next: Link) {
    dropLink()
    link = next
    links += 1
    adoptedAt = .now
    lastMessagesIn = 0
    next.state.watch()
    for index in entries.indices { open(&entries[index]) }
  }

  func dropLink() {
    for index in entries.indices {
      guard let raw = entries[index].raw.take() else { continue }
      natsSubscription_Destroy(raw)
    }
    link?.discard()
    link = nil
  }

  /// Tells observers what happened to the link since the last turn.
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
    let server = connectedServer()
    counters.server.withLock { $0 = server }
    counters.connected.store(true, ordering: .relaxed)
    if isFirst {
      options.onEvent(.connected(server: server))
    } else {
      counters.reconnects.add(1, ordering: .relaxed)
      options.onEvent(.reconnected(server: server))
      for observer in observers.withLock({ $0 }) { observer.reconnected() }
    }
  }

  private func connectedServer() -> String {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: 512) { buffer in
      let status = natsConnection_GetConnectedUrl(connection, buffer.baseAddress, buffer.count)
      guard status == NATS_OK else { return "" }
      // As it stands in the settings, so with a password perhaps, which logs must not show.
      return ServerGreeting.withoutCredentials(String(cString: buffer.baseAddress!))
    }
  }
}
