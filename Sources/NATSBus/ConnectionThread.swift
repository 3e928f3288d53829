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

/// The one thread that works a connection: it alone calls the library, which takes locks that its
/// own threads hold while they connect.
///
/// The library runs in its event-loop mode: no thread and no millisecond of flushing of its own.
/// A turn reads what has come and hands it over, then sends what others queued, in one write.
///
/// Fields without another note belong to the thread; that is what makes it safe to share.
final class ConnectionThread: @unchecked Sendable {
  struct Entry {
    var raw: OpaquePointer
    var registration: Registration
    var dropped: Int64 = 0
  }

  let options: NATSOptions
  let requests = Requests()
  let outbox: Outbox
  private let poll: EventPoll
  /// Jobs of actors that live on this thread: see `BusExecutor`.
  private var jobs: JobQueue { executor.jobs }
  let executor: BusExecutor
  let taskExecutor: BusTaskExecutor

  // Shared with other threads.
  let counters = Counters()
  let observers = Mutex<[any ConnectionObserver]>([])
  let burstEnd = Mutex<[@Sendable () -> Void]>([])
  private let closing = Atomic(false)
  private let closeWaiters = Mutex<(finished: Bool, waiters: [@Sendable () -> Void])>((false, []))

  // Set by the library's callbacks, on whatever thread.
  private let socket = Atomic<Int32>(-1)
  private let attachments = Atomic<Int>(0)
  private let wantsWrite = Atomic(false)
  private let libraryClosed = Atomic(false)

  private var thread = pthread_self()
  private var connection: OpaquePointer?
  private var libraryStatistics: OpaquePointer?
  private var entries: [Entry] = []
  private var backlog: [Operation] = []
  private var position = 0
  private let graveyard = MessageGraveyard()
  private var lastMessagesIn: UInt64 = 0
  private var seenAttachments = 0
  private var seenAttached = false
  private var watchesWrites = false
  private var closeDeadline: ContinuousClock.Instant?
  private var lastFailureReport: ContinuousClock.Instant?

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
  }

  private var isAttached: Bool { socket.load(ordering: .acquiring) >= 0 }
  private var mustWrite: Bool { wantsWrite.load(ordering: .acquiring) }

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
    if wants, pthread_equal(pthread_self(), thread) == 0 { poll.wake() }
  }

  func connectionClosed() {
    libraryClosed.store(true, ordering: .releasing)
    poll.wake()
  }

  // MARK: The thread

  /// Connects, reports how that went, and works until it is told to close.
  func run(url: String, name: String, started: (Result<Void, any Error>) -> Void) {
    thread = pthread_self()
    do {
      connection = try openConnection(self, url: url, name: name)
      natsStatistics_Create(&libraryStatistics)
      noticeAttachments()
      started(.success(()))
    } catch {
      outbox.close()
      started(.failure(error))
      return
    }
    while !isFinished { turn() }
    finish()
  }

  private func turn() {
    noticeAttachments()
    let next = expire()
    let blocked = !isAttached || mustWrite
    // In this order: a job that comes now finds the thread asleep and wakes it, or is seen here.
    let sleeps = outbox.sleeps(evenWithWork: blocked) && jobs.isEmpty
    let events = poll.wait(milliseconds: sleeps ? Self.milliseconds(until: next) : 0)
    outbox.awake()
    if isAttached, events.readable {
      natsConnection_ProcessReadEvent(connection)
      deliver()
    }
    jobs.run(on: executor.asUnownedSerialExecutor())
    guard isAttached else { return }
    if mustWrite { flush() }
    drain()
  }

  private func expire() -> ContinuousClock.Instant? {
    let now = ContinuousClock.now
    var next = requests.expire(now: now)
    for observer in observers.withLock({ $0 }) {
      if let wanted = observer.expire(now: now) { next = min(next ?? wanted, wanted) }
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
      return status == NATS_OK ? String(cString: buffer.baseAddress!) : ""
    }
  }

  // MARK: Receiving

  /// Hands over what the library has just read.
  ///
  /// The number of messages is known, so that the subscriptions need to be searched only until they
  /// are found; busy ones move forward.
  private func deliver() {
    var messagesIn: UInt64 = 0
    natsConnection_GetStats(connection, libraryStatistics)
    natsStatistics_GetCounts(libraryStatistics, &messagesIn, nil, nil, nil, nil)
    var expected = messagesIn &- lastMessagesIn
    lastMessagesIn = messagesIn
    guard expected > 0 else { return }
    var index = 0
    while expected > 0, index < entries.count {
      var queued: UInt64 = 0
      if natsSubscription_QueuedMsgs(entries[index].raw, &queued) == NATS_OK, queued > 0 {
        deliver(queued, of: index)
        expected -= min(expected, queued)
        entries.swapAt(index, index / 2)
      }
      index += 1
    }
    for handler in burstEnd.withLock({ $0 }) { handler() }
  }

  private func deliver(_ count: UInt64, of index: Int) {
    let entry = entries[index]
    var left = count
    while left > 0 {
      var raw: OpaquePointer?
      let status = natsSubscription_NextMsg(&raw, entry.raw, 0)
      if status == NATS_OK, let raw {
        counters.messagesIn.add(1, ordering: .relaxed)
        counters.bytesIn.add(UInt64(natsMsg_GetDataLength(raw)), ordering: .relaxed)
        entry.registration.handle(NATSMessage(owning: raw, graveyard))
        left -= 1
      } else if status == NATS_NO_RESPONDERS {
        entry.registration.onNoResponders?()
        left -= 1
      } else if status == NATS_SLOW_CONSUMER {
        countDrops(of: index)
      } else {
        return
      }
    }
  }

  private func countDrops(of index: Int) {
    var total: Int64 = 0
    guard natsSubscription_GetDropped(entries[index].raw, &total) == NATS_OK else { return }
    counters.dropped.add(UInt64(max(0, total - entries[index].dropped)), ordering: .relaxed)
    entries[index].dropped = total
  }

  // MARK: Sending

  /// Sends what is queued, in writes of a bounded size, while the socket takes them.
  private func drain() {
    while isAttached, !mustWrite {
      if position == backlog.count {
        backlog.removeAll(keepingCapacity: true)
        position = 0
        outbox.take(into: &backlog)
        if backlog.isEmpty { break }
      }
      var bytes = 0
      let end = min(position + 512, backlog.count)
      while position < end, bytes < 256 << 10 {
        let operation = backlog[position]
        position += 1
        bytes += operation.payloadBytes
        perform(operation)
      }
      counters.backlog.store(backlog.count - position, ordering: .relaxed)
      if mustWrite { flush() }
    }
  }

  private func perform(_ operation: Operation) {
    switch operation {
    case .publish(let message): publish(message.subject, message.bytes, replyTo: message.replyTo)
    case .write(let write): if write.table.isPending(write.token) { perform(write) }
    case .run(let body): body(self)
    }
  }

  private func flush() {
    guard isAttached else { return }
    natsConnection_ProcessWriteEvent(connection)
    let watches = mustWrite
    guard watches != watchesWrites else { return }
    watchesWrites = watches
    let descriptor = socket.load(ordering: .acquiring)
    if descriptor >= 0 { poll.watchWrites(descriptor, watches) }
  }

  func publish(_ subject: String, _ bytes: [UInt8], replyTo: String?) {
    let status = bytes.withUnsafeBytes { buffer in
      if let replyTo {
        natsConnection_PublishRequest(
          connection, subject, replyTo, buffer.baseAddress, Int32(clamping: buffer.count))
      } else {
        natsConnection_Publish(
          connection, subject, buffer.baseAddress, Int32(clamping: buffer.count))
      }
    }
    sent(status, bytes.count)
  }

  private func perform(_ write: StreamWrite) {
    let reply = write.table.inboxPrefix + String(write.token)
    let status = write.bytes.withUnsafeBytes { buffer -> natsStatus in
      var raw: OpaquePointer?
      let data = buffer.baseAddress?.assumingMemoryBound(to: CChar.self)
      var status = natsMsg_Create(&raw, write.subject, reply, data, Int32(clamping: buffer.count))
      guard status == NATS_OK, let raw else { return status }
      let message = NATSMessage(owning: raw, graveyard)
      if let expecting = write.expecting {
        status = natsMsgHeader_Set(
          raw, "Nats-Expected-Last-Subject-Sequence", String(expecting))
      }
      if status == NATS_OK, write.isDeletion {
        status = natsMsgHeader_Set(raw, "KV-Operation", "DEL")
      }
      if status == NATS_OK { status = natsConnection_PublishMsg(connection, raw) }
      _ = consume message
      return status
    }
    sent(status, write.bytes.count)
    if status != NATS_OK { write.table.end(write.token, .unknown(natsErrorText(status))) }
  }

  private func sent(_ status: natsStatus, _ bytes: Int) {
    guard status != NATS_OK else {
      counters.messagesOut.add(1, ordering: .relaxed)
      counters.bytesOut.add(UInt64(bytes), ordering: .relaxed)
      return
    }
    counters.dropped.add(1, ordering: .relaxed)
    let now = ContinuousClock.now
    if let last = lastFailureReport, now - last < .seconds(1) { return }
    lastFailureReport = now
    options.onEvent(.failure("a message was not sent: \(natsErrorText(status))"))
  }

  // MARK: Subscriptions

  func subscribe(_ registration: Registration) {
    guard !registration.isCancelled else { return }
    var raw: OpaquePointer?
    let status =
      if let queue = registration.queue {
        natsConnection_QueueSubscribeSync(&raw, connection, registration.subject, queue)
      } else {
        natsConnection_SubscribeSync(&raw, connection, registration.subject)
      }
    guard status == NATS_OK, let raw else {
      options.onEvent(
        .failure("cannot subscribe to \(registration.subject): \(natsErrorText(status))"))
      return
    }
    natsSubscription_SetPendingLimits(
      raw, options.subscriptionMessagesMax, options.subscriptionBytesMax)
    entries.append(Entry(raw: raw, registration: registration))
  }

  func unsubscribe(_ registration: Registration) {
    guard let index = entries.lastIndex(where: { $0.registration === registration }) else { return }
    natsSubscription_Destroy(entries[index].raw)
    entries.swapAt(index, entries.count - 1)
    entries.removeLast()
  }

  // MARK: The end

  private var isFinished: Bool {
    if libraryClosed.load(ordering: .acquiring) { return true }
    guard closing.load(ordering: .acquiring) else { return false }
    let deadline = closeDeadline ?? .now + options.closeTimeout
    closeDeadline = deadline
    if isAttached, !mustWrite, position == backlog.count, outbox.isEmpty { return true }
    return deadline <= .now
  }

  private func finish() {
    outbox.close()
    requests.endAll(BusError.closed)
    for observer in observers.withLock({ $0 }) { observer.disconnected() }
    observers.withLock { $0.removeAll() }
    for entry in entries { natsSubscription_Destroy(entry.raw) }
    entries.removeAll()
    natsConnection_Destroy(connection)
    natsStatistics_Destroy(libraryStatistics)
    counters.connected.store(false, ordering: .relaxed)
    options.onEvent(.closed)
    let waiters = closeWaiters.withLock { state in
      state.finished = true
      return state.waiters
    }
    for waiter in waiters { waiter() }
    jobs.end(on: executor.asUnownedSerialExecutor())
  }
}

/// What a connection counts, readable from anywhere.
final class Counters: Sendable {
  let connected = Atomic(false)
  let reconnects = Atomic<UInt64>(0)
  let messagesIn = Atomic<UInt64>(0)
  let messagesOut = Atomic<UInt64>(0)
  let bytesIn = Atomic<UInt64>(0)
  let bytesOut = Atomic<UInt64>(0)
  /// Dropped by the library or not sent; what the outbox refused is counted there.
  let dropped = Atomic<UInt64>(0)
  let backlog = Atomic<Int>(0)
  let server = Mutex("")
  let serverVersion = Mutex("")
}
