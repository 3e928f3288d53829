internal import CallCore
internal import CallWire

extension FuzzTarget {
  static let deviceProtobuf = device("device-protobuf", .protobuf)
  static let deviceJSON = device("device-json", .json)

  /// A frame that was read means the same when it is written again.
  private static func device(_ name: String, _ codec: DeviceCodec) -> FuzzTarget {
    FuzzTarget(name, bytesMax: 16_384) {
      { bytes in
        let limits = CallLimits()
        if let frame = try? codec.decodeClient(bytes, limits: limits) {
          let again = try codec.encode(frame).withUnsafeBytes {
            try codec.decodeClient($0, limits: limits)
          }
          try promise(again == frame, "\(frame) became \(again)")
        }
        if let frame = try? codec.decodeServer(bytes) {
          // An edge's may hold what no edge says, which is then cut to size.
          let written = codec.encode(frame)
          let again = try written.withUnsafeBytes { try codec.decodeServer($0) }
          try promise(codec.encode(again) == written, "\(frame) became \(again)")
        }
        _ = codec.tooLarge(bytes)
      }
    }
  }

  static let httpBodies = FuzzTarget("http-bodies") { bytes in
    if let body = try? HTTPBodies.register(bytes) {
      let again = try HTTPBodies.register(HTTPBodies.encode(body))
      try promise(again == body, "\(body) became \(again)")
    }
    if let body = try? HTTPBodies.decline(bytes) {
      try promise(try HTTPBodies.decline(HTTPBodies.encode(body)) == body, "\(body)")
    }
    if let state = HTTPBodies.readCallState(bytes) {
      try promise(HTTPBodies.readCallState(HTTPBodies.callState(state)) == state, "\(state)")
    }
    if let info = HTTPBodies.readRegistered(bytes) {
      try promise(HTTPBodies.readRegistered(HTTPBodies.registered(info)) == info, "\(info)")
    }
    if let error = HTTPBodies.readError(bytes) {
      try promise(HTTPBodies.readError(HTTPBodies.error(error)) == error, "\(error)")
    }
  }

  // MARK: Nodes

  static let cluster = FuzzTarget("cluster", bytesMax: 16_384) { bytes in
    try stable(bytes, ClusterCodec.commandBatch, ClusterCodec.encode)
    try stable(bytes, ClusterCodec.edgeBatch, ClusterCodec.encode)
    try stable(bytes, ClusterCodec.heartbeat, ClusterCodec.encode)
    try stable(bytes, ClusterCodec.announceRequest, ClusterCodec.encode)
    try stable(bytes, ClusterCodec.announceDone, ClusterCodec.encode)
    try stable(bytes, ClusterCodec.lease, ClusterCodec.encode)
    try stable(bytes, ClusterCodec.clusterRecord, ClusterCodec.encode)
  }

  static let journal = FuzzTarget("journal", bytesMax: 16_384) { bytes in
    try stable(bytes, ClusterCodec.journalRecord, ClusterCodec.encode)
    try stable(bytes, ClusterCodec.checkpoint, ClusterCodec.encode)
    try stable(bytes, ClusterCodec.registration, ClusterCodec.encode)
    try stable(bytes, ClusterCodec.tokenOwner, ClusterCodec.encode)
    try stable(bytes, ClusterCodec.historyMessage, ClusterCodec.encode)
    try stable(bytes, ClusterCodec.callRecords, { ClusterCodec.encode($0.records) })
  }

  static let pushMessages = FuzzTarget("push-messages") { bytes in
    try stable(bytes, ClusterCodec.pushJob, ClusterCodec.encode)
    try stable(bytes, ClusterCodec.pushKeys, ClusterCodec.encode)
    try stable(bytes, ClusterCodec.pushWithdrawal, ClusterCodec.encode(withdrawn:))
    try stable(bytes, ClusterCodec.pushNeverSent, ClusterCodec.encode(neverSent:))
  }

  /// A value that was read can be written, and stays the same from then on.
  private static func stable<Value>(
    _ bytes: [UInt8], _ read: ([UInt8]) throws(WireError) -> Value, _ write: (Value) -> [UInt8]
  ) throws {
    guard let value = try? read(bytes) else { return }
    let written = write(value)
    try promise(write(try read(written)) == written, "\(Value.self) changes: \(value)")
  }
}
