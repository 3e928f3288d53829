internal import CallBus
internal import CallWire

/// The configuration of a stream. At its limit of bytes it refuses writes, unless `dropsOldest` is set.
struct StreamSpecification: Sendable {
  var name: String
  var subjects: [String]
  /// -1: no limit.
  var messagesPerSubject = -1
  var replicas: Int
  var inMemory: Bool
  /// Whether it is a key-value bucket.
  var isBucket = false
  /// nil: no limit.
  var maximumAge: Duration?
  /// -1: no limit.
  var bytesMax: Int64 = -1
  /// When full, drop the oldest message instead of refusing the new one.
  var dropsOldest = false
  /// How an existing stream's limits of age, bytes and messages of a subject are treated.
  var existingLimits = ExistingLimits.compared
  /// Work-queue retention and its limits.
  var queue: WorkQueueOptions?

  enum ExistingLimits {
    /// Another age, or another number of messages of a subject, is an error. Bytes may differ.
    case compared
    case kept
    case changed
  }

  private var storage: String { inMemory ? "memory" : "file" }

  private var discard: String { dropsOldest ? "old" : "new" }

  private var retention: String { queue == nil ? "limits" : "workqueue" }

  private var configuration: String {
    let subjects = subjects.map(JSONWriter.quoted).joined(separator: ",")
    return """
      {"name":\(JSONWriter.quoted(name)),"subjects":[\(subjects)],"retention":"\(retention)",\
      "max_consumers":-1,"max_bytes":\(bytesMax),\(limits),"max_msg_size":-1,"storage":"\(storage)",\
      "discard":"\(discard)","num_replicas":\(replicas),"deny_delete":true,"deny_purge":\(dropsOldest),\
      "allow_rollup_hdrs":\(isBucket),"allow_direct":\(isBucket)}
      """
  }

  private var age: Int64 { maximumAge?.nanoseconds ?? 0 }

  private var limits: String {
    guard let queue else {
      return """
        "max_msgs":-1,"max_age":\(age),"max_msgs_per_subject":\(messagesPerSubject)
        """
    }
    return """
      "max_msgs":\(queue.maxJobs),"max_age":\(queue.maxAge.nanoseconds),\
      "max_msgs_per_subject":\(queue.maxJobsPerLane),"discard_new_per_subject":true,\
      "duplicate_window":\(queue.duplicateWindow.nanoseconds)
      """
  }

  /// Creates the stream, or checks that an existing one has this configuration.
  /// - Throws: `BusError`; `.failed` if the existing stream differs.
  func create(_ api: JetStreamAPI) async throws {
    var reply = try await api.call(JetStreamSubject.create(name), configuration)
    // If two nodes create a stream at the same moment, the server may tell one that the subjects overlap, before it
    // knows the other's stream by name, or that it has been created, before it has been.
    for _ in 0..<20
    where reply.errorCode == .subjectsOverlap || JetStreamAPI.isBeingMade(reply.json) {
      try await Task.sleep(for: .milliseconds(50))
      reply = try await api.call(JetStreamSubject.create(name), configuration)
    }
    guard reply.errorCode == .streamNameInUse else {
      let made = try reply.checked("cannot create the stream \(name)")
      return try JetStreamAPI.checkIsMade(made, what: "stream \(name)")
    }
    let present = try await api.information(stream: name)
    try JetStreamAPI.checkIsMade(present, what: "stream \(name)")
    let differences = differences(from: present["config"] ?? .null)
    guard differences.isEmpty else {
      throw BusError.failed(
        "the stream \(name) exists with another configuration: "
          + differences.joined(separator: ", ") + "; change it, or name the cluster differently",
        code: .streamNameInUse)
    }
    if case .changed = existingLimits { try await updateLimits(present["config"] ?? .null, api) }
  }

  private func updateLimits(_ present: JSONValue, _ api: JetStreamAPI) async throws {
    let wanted: [(String, JSONValue)] = [
      ("max_age", .number("\(age)")), ("max_bytes", .number("\(bytesMax)")),
      ("max_msgs_per_subject", .number("\(messagesPerSubject)")),
    ]
    guard wanted.contains(where: { present[$0] != $1 }) else { return }
    var changed = self
    // Operators may have changed them.
    changed.replicas = present["num_replicas"]?.unsigned.map { Int(clamping: $0) } ?? replicas
    _ = try await api.call(JetStreamSubject.update(name), changed.configuration)
      .checked("cannot change the limits of the stream \(name)")
  }

  /// Operators may change limits on size, since the server refuses writes at the limit and drops nothing; also the
  /// replicas of an existing stream, and the age limit of a queue.
  private func differences(from present: JSONValue) -> [String] {
    var wanted: [(String, JSONValue)] = [
      ("subjects", .array(subjects.map { .string(Array($0.utf8)) })),
      ("retention", .string(Array(retention.utf8))),
      ("storage", .string(Array(storage.utf8))),
      ("discard", .string(Array(discard.utf8))),
    ]
    if queue == nil, case .compared = existingLimits {
      wanted.append(("max_msgs_per_subject", .number("\(messagesPerSubject)")))
      wanted.append(("max_age", .number("\(age)")))
    }
    return wanted.compactMap { key, value in
      let found = present[key] ?? .null
      return found == value ? nil : "\(key) is \(found.description), not \(value.description)"
    }
  }
}

extension Duration {
  /// The unit of JetStream's durations.
  var nanoseconds: Int64 {
    let (product, overflow) = components.seconds.multipliedReportingOverflow(by: 1_000_000_000)
    return overflow ? .max : product + components.attoseconds / 1_000_000_000
  }
}
