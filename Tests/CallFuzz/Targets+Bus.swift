internal import CallBus
internal import CallTelemetry
internal import CallWire
internal import NATSBus

extension FuzzTarget {
  /// Messages of nats-server.
  static let jetStream = FuzzTarget("jetstream") { bytes in
    _ = JSONValue(parsing: bytes)
    _ = StreamAcknowledgement.result(bytes.span, hasLimit: false)
    _ = StreamAcknowledgement.result(bytes.span, hasLimit: true)
    if let reply = try? JetStreamAPI.parse(BusMessage(subject: "s", bytes: bytes)) {
      _ = try? JetStreamAPI.storedMessage(reply, "stream")
    }
    _ = ServerGreeting.parse(bytes)
    _ = Base64.bytes(bytes.text)
    let text = bytes.text
    _ = DeliveryOrigin(text)
    _ = ServerGreeting.split(text)
    let quoted = JSONValue(parsing: JSONWriter.quoted(text).utf8)
    try promise(quoted?.bytes == Array(text.utf8), "quoted, it is another: \(text)")
  }

  /// Questions that operators ask nodes over the bus, and the answers of the nodes.
  static let administration = FuzzTarget("administration", bytesMax: 8192) { bytes in
    _ = BoundedJSON.decode(DrainRequest.self, bytes)
    _ = BoundedJSON.decode(AdminQuery.self, bytes)
    _ = BoundedJSON.decode(KickRequest.self, bytes)
    if let query = BoundedJSON.decode(ListQuery.self, bytes) {
      try promise((1...ListQuery.limitMax).contains(query.entriesMax), "\(query)")
    }
    _ = BoundedJSON.decode(OrderAnswer.self, bytes)
    _ = BoundedJSON.decode(NodeStatus.self, bytes)
    _ = BoundedJSON.decode(CallReport.self, bytes)
    _ = BoundedJSON.decode(UserReport.self, bytes)
    _ = BoundedJSON.decode(ListReport<ListedUser>.self, bytes)
    _ = BoundedJSON.decode(ListReport<ListedCall>.self, bytes)
  }
}
