internal import CNATS
internal import CallBus
internal import Glibc
internal import Synchronization

extension ConnectionThread {
  /// Queues messages, from any thread, and has them sent. Returns how many were dropped.
  func send(_ messages: [OutgoingMessage]) -> Int {
    let (dropped, sleeps) = outbox.offer(messages)
    if sleeps, !sendInPlace() { poll.wake() }
    return dropped
  }

  /// Queues a write, from any thread, and has it sent. Returns false if there is no room.
  func send(_ write: StreamWrite) -> Bool {
    let (taken, sleeps) = outbox.offer(write)
    if sleeps, !sendInPlace() { poll.wake() }
    return taken
  }

  /// Sends queued messages and writes from the calling thread while the connection's own thread is polling: sending
  /// costs less than waking it. Other operations are left to the thread, where their callbacks are expected.
  ///
  /// Never waits for the thread.
  /// - Returns: false if the thread must be woken.
  func sendInPlace() -> Bool {
    hands.withLockIfAvailable { _ in
      guard isUsable else { return false }
      holder.store(pthread_self(), ordering: .releasing)
      repeat {
        guard drain(inPlace: true), !mustWrite, isAttached else { return false }
      } while !outbox.sleeps(evenWithWork: false)
      // From the offer that found the thread asleep until now, the outbox counted it as awake: a job or a deadline that
      // came in between did not wake it, and is not handled here. From now on they wake the thread.
      return isIdle
    } ?? false
  }

  /// Sends what is queued, in writes of bounded size, while the socket accepts them.
  /// - Parameter inPlace: whether another thread does it.
  /// - Returns: false if an operation is next that is for the connection's thread only.
  @discardableResult
  func drain(inPlace: Bool = false) -> Bool {
    var goesOn = true
    while isAttached, !mustWrite, goesOn {
      if position == backlog.count {
        backlog.removeAll(keepingCapacity: true)
        position = 0
        outbox.takeAll(into: &backlog)
        if backlog.isEmpty { break }
      }
      var bytes = 0
      let end = min(position + 512, backlog.count)
      while position < end, bytes < 256 << 10, isAttached {
        let operation = backlog[position]
        if inPlace, !operation.isForAnyThread {
          goesOn = false
          break
        }
        position += 1
        bytes += operation.payloadBytes
        perform(operation, inPlace: inPlace)
      }
      counters.backlog.store(backlog.count - position, ordering: .relaxed)
      if mustWrite { flush() }
    }
    return goesOn
  }

  private func perform(_ operation: Operation, inPlace: Bool) {
    switch operation {
    case .publish(let message): publish(message.subject, message.bytes, replyTo: message.replyTo)
    case .write(let write):
      if write.table.isPending(write.token) { perform(write, inPlace: inPlace) }
    case .run(let body): body(self)
    }
  }

  func flush() {
    guard isAttached else { return }
    link?.processWrite()
    let watches = mustWrite
    guard watches != watchesWrites else { return }
    watchesWrites = watches
    let descriptor = link?.state.descriptor ?? -1
    if descriptor >= 0 { poll.watchWrites(descriptor, watches) }
  }

  func publish(_ subject: String, _ bytes: [UInt8], replyTo: String?) {
    sent(link?.publish(subject, bytes, replyTo: replyTo) ?? NATS_CONNECTION_CLOSED)
  }

  private func perform(_ write: StreamWrite, inPlace: Bool) {
    var status = NATS_OK
    do throws(LibraryError) {
      let message = try NATSMessage(
        write.subject, replyTo: write.table.inboxPrefix + String(write.token), write.bytes,
        reclaimer)
      if let expecting = write.expecting {
        try message.setHeader("Nats-Expected-Last-Subject-Sequence", String(expecting))
      }
      if write.isDeletion { try message.setHeader("KV-Operation", "DEL") }
      if let id = write.messageID { try message.setHeader("Nats-Msg-Id", id) }
      status = link?.publish(message) ?? NATS_CONNECTION_CLOSED
    } catch {
      status = error.status
    }
    sent(status)
    guard status != NATS_OK else { return }
    let failure = AppendResult.unknown(natsErrorText(status))
    // Completions are expected on the connection's thread.
    if inPlace {
      outbox.run { _ in write.table.end(write.token, failure) }
    } else {
      write.table.end(write.token, failure)
    }
  }

  private func sent(_ status: natsStatus) {
    guard status != NATS_OK else {
      counters.messagesOut.add(1, ordering: .relaxed)
      return
    }
    counters.dropped.add(1, ordering: .relaxed)
    let now = ContinuousClock.now
    if let last = lastFailureReport, now - last < .seconds(1) { return }
    lastFailureReport = now
    options.onEvent(.failure("a message was not sent: \(natsErrorText(status))"))
  }
}
