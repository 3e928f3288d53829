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

/// The thread that works a connection. The library is called with `hands` held only, since it takes
/// locks that its own threads hold while they connect.
///
/// The library runs in its event-loop mode: no thread and no millisecond of flushing of its own.
/// A turn reads what has come and hands it over, then sends what others queued, in one write. While
/// the thread waits, who has something to send does that itself: see `sendInPlace`.
///
/// Fields without another note belong to who holds `hands`; that is what makes it safe to share.
final class ConnectionThread: @unchecked Sendable {
  struct Entry {
    var raw: OpaquePointer
    var registration: Registration
    var dropped: Int64 = 0
  }

  let options: NATSOptions
  let requests = Requests()
  let outbox: Outbox
  let poll: EventPoll
  /// Jobs of actors that live on this thread: see `BusExecutor`.
  var jobs: JobQueue { executor.jobs }
  let executor: BusExecutor
  let taskExecutor: BusTaskExecutor
  let timers: BusTimers

  // Shared with other threads.
  let counters = Counters()
  let observers = Mutex<[any ConnectionObserver]>([])
  let burstEnd = Mutex<[@Sendable () -> Void]>([])
  /// Held by the thread whenever it does not wait for events, and by who sends in its place.
  let hands = Mutex<Void>(())
  /// Who holds `hands`, or held them last.
  let holder = Atomic<UInt>(0)
  let closing = Atomic(false)
  let closeWaiters = Mutex<(finished: Bool, waiters: [@Sendable () -> Void])>((false, []))

  // Set by the library's callbacks, on whatever thread.
  let socket = Atomic<Int32>(-1)
  private let attachments = Atomic<Int>(0)
  private let wantsWrite = Atomic(false)
  let libraryClosed = Atomic(false)

  private var thread: UInt = 0
  var connection: OpaquePointer?
  var libraryStatistics: OpaquePointer?
  var entries: [Entry] = []
  /// What was taken from the outbox; before `position` it is sent.
  var backlog: [Operation] = []
  var position = 0
  let graveyard = MessageGraveyard()
  var lastMessagesIn: UInt64 = 0
  private var seenAttachments = 0
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

  var isAttached: Bool { socket.load(ordering: .acquiring) >= 0 }
  var mustWrite: Bool { wantsWrite.load(ordering: .acquiring) }
  /// Whether there is a connection, and observers were told.
  var isUsable: Bool {
    isAttached && seenAttached && attachments.load(ordering: .acquiring) == seenAttachments
  }

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

  func socketAttached(_ descriptor: Int32) {
    wantsWrite.store(false, ordering: .releasing)
    socket.store(descriptor, ordering: .releasing)
    attachments.add(1, ordering: .acquiringAndReleasing)
    poll.add(descriptor)
    poll.wake()
  }

  func socketDetached() {
    let descriptor = socket.exchange(-1, ordering: .acquiringAndReleasing)
    if descriptor >= 0 { poll.remove(descriptor) }
    poll.wake()
  }

  func setWantsWrite(_ wants: Bool) {
    wantsWrite.store(wants, ordering: .releasing)
    if wants, pthread_self() != holder.load(ordering: .acquiring) { poll.wake() }
  }

  func connectionClosed() {
    libraryClosed.store(true, ordering: .releasing)
    poll.wake()
  }

  // MARK: The thread

  /// Connects, reports how that went, and works until it is told to close.
  func run(url: String, name: String, started: (Result<Void, any Error>) -> Void) {
    thread = pthread_self()
    holder.store(thread, ordering: .releasing)
    // A timeout of 0: the first turn does not wait.
    var timeout: Int32? = hands.withLock { _ in
      do {
        connection = try openConnection(self, url: url, name: name)
        natsStatistics_Create(&libraryStatistics)
        noticeAttachments()
        started(.success(()))
        return 0
      } catch {
        outbox.close()
        started(.failure(error))
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
    let next = expire()
    let blocked = !isAttached || mustWrite
    // In this order: what comes now finds the thread asleep and wakes it, or is seen here.
    let sleeps = outbox.sleeps(evenWithWork: blocked) && isLeftToItself
    return sleeps ? Self.milliseconds(until: next) : 0
  }

  /// Whether nothing but the outbox may have something for the thread. To be asked once the thread
  /// passes for asleep, never before.
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

  /// Tells observers what happened to the socket since the last turn.
  private func noticeAttachments() {
    let attached = isAttached
    let count = attachments.load(ordering: .acquiring)
    guard attached != seenAttached || count != seenAttachments else { return }
    if seenAttached {
      for observer in observers.withLock({ $0 }) { observer.disconnected() }
      counters.connected.store(false, ordering: .relaxed)
      options.onEvent(.disconnected)
    }
    seenAttached = attached
    watchesWrites = false
    guard attached else { return }
    let isFirst = seenAttachments == 0
    seenAttachments = count
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
