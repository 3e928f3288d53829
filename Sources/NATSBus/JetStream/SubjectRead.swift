internal import CallBus
internal import CallWire
internal import Synchronization

/// Reads all messages of one subject at once, through an ephemeral push consumer without acknowledgements: one
/// question, however many messages there are.
///
/// The consumer numbers its messages, and its making says how many there are. Where one is lost, or was dropped by the
/// server meanwhile, the read fails at its deadline, and whoever wants it reads again.
final class SubjectRead: Sendable {
  private struct State {
    var found: [StoredRecord] = []
    /// nil until the consumer is made.
    var count: UInt64?
    var consumer: String?
    var hasGap = false

    var isComplete: Bool { count.map { UInt64(found.count) >= $0 } ?? false }
  }

  private let api: JetStreamAPI
  private let stream: String
  private let subject: String
  private let state = Mutex(State())
  private let ended = Inbox<Result<Void, any Error>>(capacity: 1)

  init(_ api: JetStreamAPI, stream: String, subject: String) {
    self.api = api
    self.stream = stream
    self.subject = subject
  }

  /// To be called once.
  /// - Throws: `BusError`, `CancellationError`.
  func run() async throws -> [StoredRecord] {
    let bus = api.bus
    let timeout = bus.thread.options.consumerTimeout
    let inbox = bus.newInbox()
    let subscription = NATSSubscription(
      inbox, outbox: bus.thread.outbox, handler: .inPlace { [self] in receive($0) })
    guard bus.subscribe(subscription) else { throw BusError.closed }
    defer { end(subscription) }
    api.start(JetStreamSubject.follow(stream), configuration(inbox), timeout: timeout) {
      [self] in created($0)
    }
    guard let result = await ended.next(until: .now + timeout).first else {
      throw Task.isCancelled ? CancellationError() : BusError.timeout
    }
    try result.get()
    return state.withLock { $0.found }
  }

  private func configuration(_ inbox: String) -> String {
    """
    {"stream_name":\(JSONWriter.quoted(stream)),"config":{\
    "deliver_subject":\(JSONWriter.quoted(inbox)),"deliver_policy":"all",\
    "filter_subject":\(JSONWriter.quoted(subject)),"ack_policy":"none","max_deliver":1,\
    "replay_policy":"instant","inactive_threshold":5000000000,"mem_storage":true,"num_replicas":1}}
    """
  }

  private func created(_ answer: Result<JetStreamAPI.Reply, any Error>) {
    do {
      let json = try answer.get().checked("cannot read \(subject)")
      // By now some may be on their way.
      let delivered = json["delivered"]?["consumer_seq"]?.unsigned ?? 0
      let pending = json["num_pending"]?.unsigned ?? 0
      let isComplete = state.withLock { state in
        state.consumer = json["name"]?.text
        state.count = delivered &+ pending
        return state.isComplete
      }
      if isComplete { ended.offer(.success(())) }
    } catch {
      ended.offer(.failure(error))
    }
  }

  private func receive(_ message: borrowing NATSMessage) {
    guard let origin = message.replyTo.flatMap(DeliveryOrigin.init) else { return }
    let bytes = message.bytes
    let isComplete = state.withLock { state in
      state.hasGap = state.hasGap || origin.consumerSequence != UInt64(state.found.count) + 1
      guard !state.hasGap else { return false }
      state.found.append(StoredRecord(sequence: origin.streamSequence, bytes: bytes))
      return state.isComplete
    }
    if isComplete { ended.offer(.success(())) }
  }

  private func end(_ subscription: NATSSubscription) {
    subscription.cancel()
    // One whose name is not known ends by itself, since its inbox has no subscriber.
    guard let consumer = state.withLock({ $0.consumer }) else { return }
    api.bus.publish(JetStreamSubject.api + JetStreamSubject.unfollow(stream, consumer), [])
  }
}
