public import CallBus
internal import CallWire

/// The queue of push jobs: one stream in which a job stays until it is acknowledged, and one durable
/// consumer per lane, from which all takers of the lane pull.
public final class JetStreamWorkQueue: WorkQueue {
  let bus: NATSBus
  let stream: String
  let options: WorkQueueOptions
  private let api: JetStreamAPI
  private let subjects: Subjects
  private let writer: StreamWriter

  static func open(_ bus: NATSBus, _ options: WorkQueueOptions) async throws -> JetStreamWorkQueue {
    let queue = JetStreamWorkQueue(bus, options)
    guard options.createsMissing else {
      let reply = try await queue.api.call(JetStreamSubject.information(queue.stream), "")
      if reply.errorCode == JetStreamAPI.streamNotFound {
        throw BusError.notReady("there is no stream \(queue.stream) yet: a coordinator makes it")
      }
      _ = try reply.checked("cannot open the stream \(queue.stream)")
      return queue
    }
    try await StreamSpecification(
      name: queue.stream, subjects: [queue.subject("*")], replicas: options.replicas,
      inMemory: options.inMemory, bytesMax: options.bytesMax ?? -1, queue: options
    ).create(queue.api)
    return queue
  }

  private init(_ bus: NATSBus, _ options: WorkQueueOptions) {
    self.bus = bus
    self.options = options
    subjects = bus.thread.options.subjects
    stream = subjects.pushStream
    api = JetStreamAPI(bus)
    writer = StreamWriter(bus, timeout: options.addTimeout, hasLimit: true)
  }

  func subject(_ lane: String) -> String { subjects.pushJobs(lane: lane) }

  public func add(
    lane: String, id: String, _ bytes: [UInt8],
    completion: @escaping @Sendable (AppendResult) -> Void
  ) {
    guard isLaneName(lane) else {
      let taken = bus.thread.outbox.run { _ in completion(.unknown("not a lane: '\(lane)'")) }
      if !taken { completion(.unknown("the bus is closed")) }
      return
    }
    writer.write(subject(lane), bytes, expecting: nil, messageID: id, completion: completion)
  }

  public func take(
    lane: String, inFlight: Int, handler: @escaping @Sendable (WorkItem) -> Void
  ) async throws -> any BusSubscription {
    guard isLaneName(lane) else { throw BusError.failed("not a lane: '\(lane)'") }
    let taker = WorkTaker(self, lane: lane, inFlight: max(1, inFlight), handler: handler)
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        taker.start { continuation.resume(with: $0) }
      }
    } onCancel: {
      taker.cancel()
    }
    return taker
  }

  public func depth(lane: String) async throws -> Int {
    guard isLaneName(lane) else { throw BusError.failed("not a lane: '\(lane)'") }
    let question = "{\"subjects_filter\":\(JSONWriter.quoted(subject(lane)))}"
    let information = try await api.call(JetStreamSubject.information(stream), question)
      .checked("cannot ask for \(stream)")
    let count = information["state"]?["subjects"]?[subject(lane)]?.unsigned ?? 0
    return Int(clamping: count)
  }
}

extension NATSBus {
  public func openWorkQueue(_ options: WorkQueueOptions) async throws -> JetStreamWorkQueue {
    try await JetStreamWorkQueue.open(self, options)
  }
}
