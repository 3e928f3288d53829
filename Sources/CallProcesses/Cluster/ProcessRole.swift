package enum ProcessRole: String, CaseIterable, Decodable, Sendable {
  /// `node`: edge and coordinator in one process.
  case node, edge, coordinator, push, nats
}
