internal import CNATS
internal import CallBus
internal import Glibc
internal import Synchronization

/// A connection of the library, which it owns. When it breaks, `ConnectionThread` opens another one.
///
/// The library could reconnect by itself. But in its event-loop mode the parser keeps what it has read of a partial
/// message, and takes the new connection's first bytes for the rest: messages are garbled, or every connection breaks
/// at once (nats.c issue 1007; all versions up to 3.13).
///
/// `@safe`: the pointers stay in here and are valid until `deinit`. The library may be called from any thread; what it
/// does not synchronise, `ConnectionThread.hands` does.
@safe struct Link: ~Copyable, Sendable {
  let state: LinkState
  private nonisolated(unsafe) let connection: OpaquePointer
  private nonisolated(unsafe) let statistics: OpaquePointer?

  init(owning connection: OpaquePointer, state: LinkState) {
    self.state = state
    unsafe self.connection = connection
    var statistics: OpaquePointer?
    _ = unsafe natsStatistics_Create(&statistics)
    unsafe self.statistics = statistics
  }

  deinit {
    unsafe natsStatistics_Destroy(statistics)
    unsafe natsConnection_Destroy(connection)
  }

  // MARK: Reading and writing

  /// Reads what has arrived, and parses it.
  func processRead() { unsafe natsConnection_ProcessReadEvent(connection) }

  /// Writes what the library has buffered, as far as the socket takes it.
  func processWrite() { unsafe natsConnection_ProcessWriteEvent(connection) }

  /// The messages received since the connection was opened.
  var messagesIn: UInt64 {
    var count: UInt64 = 0
    _ = unsafe natsConnection_GetStats(connection, statistics)
    _ = unsafe natsStatistics_GetCounts(statistics, &count, nil, nil, nil, nil)
    return count
  }

  func publish(_ subject: String, _ bytes: [UInt8], replyTo: String?) -> natsStatus {
    unsafe bytes.withUnsafeBytes { buffer in
      let count = Int32(clamping: buffer.count)
      if let replyTo {
        return unsafe natsConnection_PublishRequest(
          connection, subject, replyTo, buffer.baseAddress, count)
      }
      return unsafe natsConnection_Publish(connection, subject, buffer.baseAddress, count)
    }
  }

  func publish(_ message: borrowing NATSMessage) -> natsStatus {
    unsafe natsConnection_PublishMsg(connection, message.raw)
  }

  /// - Throws: the library's status.
  func subscribe(_ subject: String, queue: String?) throws(LibraryError) -> LibrarySubscription {
    var raw: OpaquePointer?
    let status =
      if let queue {
        unsafe natsConnection_QueueSubscribeSync(&raw, connection, subject, queue)
      } else {
        unsafe natsConnection_SubscribeSync(&raw, connection, subject)
      }
    guard status == NATS_OK, let raw = unsafe raw else { throw LibraryError(status: status) }
    return unsafe LibrarySubscription(owning: raw)
  }

  // MARK: The server

  /// Why the connection ended: the error that the server reported before it closed it, or what failed here. nil if it
  /// has not ended. Call it on the thread that reads: the library keeps details by thread.
  var breakReason: String? {
    var text: UnsafePointer<CChar>?
    let status = unsafe natsConnection_GetLastError(connection, &text)
    switch status {
    case NATS_OK: return nil
    case NATS_CONNECTION_CLOSED: return "nats-server closed the connection"
    case NATS_ERR:
      return unsafe text.map { withoutCredentials(text: unsafe String(cString: $0)) }
    default: return natsErrorText(status)
    }
  }

  /// The server's address, without credentials; empty if there is no connection.
  var server: String {
    unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 512) { buffer in
      guard
        unsafe natsConnection_GetConnectedUrl(connection, buffer.baseAddress, buffer.count)
          == NATS_OK, let text = buffer.baseAddress
      else { return "" }
      return ServerGreeting.withoutCredentials(unsafe String(cString: text))
    }
  }
}

/// A status of the library other than `NATS_OK`.
struct LibraryError: Error {
  var status: natsStatus
}

/// A subscription of the library, which it owns. Used by the connection's thread only, hence `@unchecked`.
@safe final class LibrarySubscription: @unchecked Sendable {
  enum Next: ~Copyable {
    case message(NATSMessage)
    /// The subject of a request has no subscriber.
    case noResponders
    /// The library has dropped messages since the last call.
    case slowConsumer
    case nothing
  }

  private let raw: OpaquePointer
  private var droppedBefore: Int64 = 0

  init(owning raw: OpaquePointer) { unsafe self.raw = raw }

  deinit { unsafe natsSubscription_Destroy(raw) }

  func setPendingLimits(messages: Int32, bytes: Int32) {
    unsafe natsSubscription_SetPendingLimits(raw, messages, bytes)
  }

  var queued: UInt64 {
    var count: UInt64 = 0
    return unsafe natsSubscription_QueuedMsgs(raw, &count) == NATS_OK ? count : 0
  }

  func next(_ reclaimer: MessageReclaimer) -> Next {
    var message: OpaquePointer?
    switch unsafe natsSubscription_NextMsg(&message, raw, 0) {
    case NATS_OK:
      guard let message = unsafe message else { return .nothing }
      return .message(unsafe NATSMessage(owning: message, reclaimer))
    case NATS_NO_RESPONDERS: return .noResponders
    case NATS_SLOW_CONSUMER: return .slowConsumer
    default: return .nothing
    }
  }

  /// The messages that the library has dropped since the last call.
  func takeDropped() -> UInt64 {
    var total: Int64 = 0
    guard unsafe natsSubscription_GetDropped(raw, &total) == NATS_OK else { return 0 }
    defer { droppedBefore = total }
    return UInt64(max(0, total - droppedBefore))
  }
}
