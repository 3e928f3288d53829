internal import CNATS
internal import CallBus
internal import Glibc
internal import Synchronization

/// What goes out.
extension ConnectionThread {
  /// Queues messages, from any thread, and sees that they are sent. Returns how many were dropped.
  func send(_ messages: [OutgoingMessage]) -> Int {
    let (dropped, sleeps) = outbox.offer(messages)
    if sleeps, !sendInPlace() { poll.wake() }
    return dropped
  }

  /// Sends what is queued from the calling thread, while this connection's own thread waits for
  /// events: to wake it costs more than to send. Only messages; all else is done by the thread, which
  /// is where its callbacks are expected.
  ///
  /// Never waits for the thread.
  /// - Returns: false when the thread must see to it.
  func sendInPlace() -> Bool {
    hands.withLockIfAvailable { _ in
      guard isUsable else { return false }
      holder.store(pthread_self(), ordering: .releasing)
      repeat {
        guard drain(messagesOnly: true), !mustWrite, isAttached else { return false }
      } while !outbox.sleeps(evenWithWork: false)
      // Between the offer that found the thread asleep and this line it passed for awake: a job or a
      // deadline that came then has woken nobody, and is nothing that is done here. From this line on
      // it wakes the thread again.
      return isLeftToItself
    } ?? false
  }

  /// Sends what is queued, in writes of a bounded size, while the socket takes them.
  /// - Returns: false when it met something that is no message, with `messagesOnly`.
  @discardableResult
  func drain(messagesOnly: Bool = false) -> Bool {
    var onlyMessages = true
    while isAttached, !mustWrite, onlyMessages {
      if position == backlog.count {
        backlog.removeAll(keepingCapacity: true)
        position = 0
        outbox.take(into: &backlog)
        if backlog.isEmpty { break }
      }
      var bytes = 0
      let end = min(position + 512, backlog.count)
      while position < end, bytes < 256 << 10, isAttached {
        let operation = backlog[position]
        if messagesOnly, !operation.isMessage {
          onlyMessages = false
          break
        }
        position += 1
        bytes += operation.payloadBytes
        perform(operation)
      }
      counters.backlog.store(backlog.count - position, ordering: .relaxed)
      if mustWrite { flush() }
    }
    return onlyMessages
  }

  private func perform(_ operation: Operation) {
    switch operation {
    case .publish(let message): publish(message.subject, message.bytes, replyTo: message.replyTo)
    case .write(let write): if write.table.isPending(write.token) { perform(write) }
    case .run(let body): body(self)
    }
  }

  func flush() {
    guard isAttached else { return }
    natsConnection_ProcessWriteEvent(connection)
    let watches = mustWrite
    guard watches != watchesWrites else { return }
    watchesWrites = watches
    let descriptor = link?.state.descriptor ?? -1
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
      if status == NATS_OK, let id = write.messageID {
        status = natsMsgHeader_Set(raw, "Nats-Msg-Id", id)
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
}
