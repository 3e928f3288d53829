public import CallBus
internal import CallWire

/// The queue of push jobs: one stream with work-queue retention, and one durable consumer per lane, from which all
/// gateways pull.
public final class JetStreamWorkQueue: WorkQueue {
  let bus: NATSBus
  let stream: String
  let options: WorkQueueOptions
  let api: JetStreamAPI
  private let subjects: Subjects
  private let writer: StreamWriter

  fileprivate init(_ bus: NATSBus, _ options: WorkQueueOptions) {
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
    completion: @escaping AppendCompletion
  ) {
    guard isLaneName(lane) else { return writer.fail("not a lane: '\(lane)'", completion) }
    writer.write(subject(lane), bytes, expecting: nil, messageID: id, completion: completion)
  }

  public func consume(
    lane: String, inFlight: Int, handler: @escaping WorkHandler
  ) async throws -> any BusSubscription {
    guard isLaneName(lane) else { throw BusError.failed("not a lane: '\(lane)'") }
    let consumer = PullConsumer(self, lane: lane, inFlight: max(1, inFlight), handler: handler)
    try await consumer.start()
    return consumer
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
    let queue = JetStreamWorkQueue(self, options)
    guard options.createsMissing else {
      try await queue.api.checkExists(queue.stream, what: "stream \(queue.stream)")
      return queue
    }
    try await StreamSpecification(
      name: queue.stream, subjects: [queue.subject("*")], replicas: options.replicas,
      inMemory: options.inMemory, bytesMax: options.bytesMax ?? -1, queue: options
    ).create(queue.api)
    return queue
  }
}
