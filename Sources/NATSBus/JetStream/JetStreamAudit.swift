public import CallBus

/// The audit trail of operators' orders: a stream in which each role has a subject of its own.
public final class JetStreamAudit: AuditTrail {
  fileprivate let api: JetStreamAPI
  fileprivate let stream: String
  private let subject: String
  private let writer: StreamWriter
  private static let readsAtOnce = 64

  fileprivate init(_ bus: NATSBus, role: String) {
    let names = bus.thread.options.subjects
    api = JetStreamAPI(bus)
    stream = names.auditStream
    subject = names.audit(role: role)
    writer = StreamWriter(bus, timeout: bus.thread.options.managementTimeout)
  }

  public func append(_ bytes: [UInt8]) async -> AppendResult {
    await writer.write(subject, bytes, expecting: nil)
  }

  public func records(limit: Int) async throws -> [StoredRecord] {
    let state = try await api.information(stream: stream)["state"]
    let (first, last) = (state?["first_seq"]?.unsigned ?? 0, state?["last_seq"]?.unsigned ?? 0)
    guard last > 0, first <= last, limit > 0 else { return [] }
    var from = max(first, last - min(last, UInt64(limit)) + 1)
    var records: [StoredRecord] = []
    while from <= last {
      let end = min(last, from + UInt64(Self.readsAtOnce) - 1)
      let (api, stream) = (api, stream)
      records += try await withThrowingTaskGroup(of: StoredRecord?.self) { group in
        for sequence in from...end {
          group.addTask {
            // nil if it was dropped meanwhile.
            try await api.message(stream: stream, sequence: sequence)?.record
          }
        }
        return try await group.reduce(into: []) { if let record = $1 { $0.append(record) } }
      }
      from = end + 1
    }
    return records.sorted { $0.sequence < $1.sequence }
  }
}

extension NATSBus {
  public func openAudit(_ options: AuditOptions) async throws -> JetStreamAudit {
    let audit = JetStreamAudit(self, role: options.role)
    guard options.createsMissing else { return audit }
    try await StreamSpecification(
      name: audit.stream, subjects: [thread.options.subjects.audit(role: "*")],
      replicas: options.replicas, inMemory: options.inMemory, bytesMax: options.bytesMax,
      dropsOldest: true
    ).create(audit.api)
    return audit
  }
}
