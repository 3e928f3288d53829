internal import CCallProto
internal import CallCore

/// What coordinators say to edges, and nodes of themselves.
extension Unpacker {
  static func edgeBatch(
    _ message: UnsafeMutablePointer<Callmesh__V1__EdgeBatch>
  ) throws(Fault) -> EdgeBatch {
    try checkSaid(format: message.pointee.format)
    var batch = EdgeBatch(items: [])
    batch.items.reserveCapacity(message.pointee.n_items)
    for index in 0..<message.pointee.n_items {
      guard let item = message.pointee.items?[index] else { throw .malformed }
      do throws(Fault) {
        batch.items.append(try edgeItem(item))
      } catch {
        batch.unreadable += 1
      }
    }
    return batch
  }

  /// Of what is said on the bus and of leases, where 0 stands for the first format.
  static func checkSaid(format: UInt32) throws(Fault) {
    guard format <= ClusterCodec.format else { throw .laterFormat(format) }
  }

  private static func edgeItem(
    _ message: UnsafeMutablePointer<Callmesh__V1__EdgeItem>
  ) throws(Fault) -> EdgeItem {
    EdgeItem(
      session: message.pointee.session, body: try body(message),
      ringsSince: knownTime(message.pointee.rings_since_us))
  }

  /// nil for 0, which stands for a time that is not known.
  static func knownTime(_ microseconds: Int64) -> Timestamp? {
    microseconds == 0 ? nil : Timestamp(microseconds: microseconds)
  }

  private static func body(
    _ message: UnsafeMutablePointer<Callmesh__V1__EdgeItem>
  ) throws(Fault) -> EdgeItem.Body {
    switch message.pointee.body_case {
    case CALLMESH__V1__EDGE_ITEM__BODY_REPLY:
      let reply = try there(message.pointee.reply, "reply")
      let ticket = SessionTicket(
        high: message.pointee.ticket_high, low: message.pointee.ticket_low,
        times: message.pointee.ticket_times, key: message.pointee.ticket_key)
      return .reply(request: reply.pointee.id, try shardReply(reply, ticket: ticket))
    case CALLMESH__V1__EDGE_ITEM__BODY_DELIVERY:
      return .delivery(try delivery(there(message.pointee.delivery, "delivery")))
    case CALLMESH__V1__EDGE_ITEM__BODY_NOTICE:
      return .notice(try notice(message.pointee.notice))
    case CALLMESH__V1__EDGE_ITEM__BODY_CLOSE:
      return .close(try notice(there(message.pointee.close, "close").pointee.notice))
    default: throw .unknownMember("item")
    }
  }

  private static func shardReply(
    _ message: UnsafeMutablePointer<Callmesh__V1__Reply>, ticket: SessionTicket?
  ) throws(Fault) -> Reply {
    switch message.pointee.result_case {
    case CALLMESH__V1__REPLY__RESULT_ERROR:
      return .error(try error(there(message.pointee.error, "error")))
    case CALLMESH__V1__REPLY__RESULT_DONE:
      return .done
    case CALLMESH__V1__REPLY__RESULT_ATTACHED:
      let attached = try there(message.pointee.attached, "attached")
      return .attached(
        forCall: attached.pointee.for_call == nil
          ? nil : try callState(attached.pointee.for_call, "forCall"), ticket: ticket)
    case CALLMESH__V1__REPLY__RESULT_REGISTERED:
      let registered = try there(message.pointee.registered, "registered")
      return .registered(
        expiresAt: time(milliseconds: registered.pointee.expires_at_ms),
        removed: try devices(registered), capabilities: try capabilities(registered))
    case CALLMESH__V1__REPLY__RESULT_CALL:
      return .call(try callState(message.pointee.call, "call"))
    case CALLMESH__V1__REPLY__RESULT_ANSWER:
      let answer = try there(message.pointee.answer, "answer")
      return .answer(
        won: answer.pointee.won != 0, try callState(answer.pointee.call, "answer.call"))
    case CALLMESH__V1__REPLY__RESULT_CALLS:
      return .calls(try liveCalls(there(message.pointee.calls, "calls")))
    default: throw .unknownMember("result")
    }
  }

  static func heartbeat(
    _ message: UnsafeMutablePointer<Callmesh__V1__Heartbeat>
  ) throws(Fault) -> Heartbeat {
    try checkSaid(format: message.pointee.format)
    var heartbeat = Heartbeat(
      node: try text(message.pointee.node, "node"),
      role: try known(message.pointee.role.rawValue, NodeRole.self, "role"),
      incarnation: message.pointee.incarnation,
      state: try known(message.pointee.state.rawValue, NodeState.self, "state"),
      version: try text(message.pointee.version, "version"),
      shardCount: message.pointee.shard_count, reads: max(1, message.pointee.reads))
    heartbeat.silentEdges = try array(
      message.pointee.n_silent_edges, message.pointee.silent_edges
    ) { edge throws(Fault) in
      SilentEdge(
        edge: edge.pointee.edge, since: .milliseconds(Int64(edge.pointee.since_ms)),
        isLost: edge.pointee.is_lost != 0)
    }
    return heartbeat
  }

  static func lease(_ message: UnsafeMutablePointer<Callmesh__V1__Lease>) throws(Fault) -> Lease {
    try checkSaid(format: message.pointee.format)
    return Lease(
      owner: try text(message.pointee.owner, "owner"),
      incarnation: message.pointee.incarnation, epoch: message.pointee.epoch,
      released: message.pointee.released != 0,
      refusedBy: message.pointee.refused_by.map {
        Array(UnsafeBufferPointer(start: $0, count: message.pointee.n_refused_by))
      } ?? [],
      refusal: try text(message.pointee.refusal, "refusal"))
  }

  static func clusterRecord(
    _ message: UnsafeMutablePointer<Callmesh__V1__ClusterRecord>
  ) throws(Fault) -> ClusterRecord {
    try checkKept(format: message.pointee.format)
    return ClusterRecord(
      cluster: try text(message.pointee.cluster, "cluster"),
      shardCount: message.pointee.shard_count)
  }
}

extension SessionTicket {
  /// Both times in one number; never 0, since no token expires in 1970.
  var times: UInt64 { UInt64(expires) << 32 | UInt64(issued) }

  /// - Parameter times: 0: there is no ticket.
  init?(high: UInt64, low: UInt64, times: UInt64, key: UInt32) {
    guard times != 0 else { return nil }
    self.init(
      high: high, low: low, expires: UInt32(truncatingIfNeeded: times >> 32),
      issued: UInt32(truncatingIfNeeded: times), key: key)
  }
}
