internal import CCallProto
internal import CallCore

// What coordinators say to edges, and nodes of themselves (cluster.proto).

enum EdgeBatchMapping: Mapping {
  static var blank: EdgeBatch { EdgeBatch(items: []) }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__EdgeBatch>?) {
    callmesh__v1__edge_batch__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.format(&m.format, writes: ClusterCodec.firstFormat, .said)
    guard C.reads else {
      return try c.array(EdgeItemMapping.self, &value.items, &m.n_items, &m.items)
    }
    value.items.reserveCapacity(m.n_items)
    for index in 0..<m.n_items {
      if let item = m.items?[index],
        let known = try? Unpacker().value(EdgeItemMapping.self, of: item)
      {
        value.items.append(known)
      } else {
        value.unreadable += 1
      }
    }
  }
}

private enum EdgeItemMapping: Mapping {
  static var blank: EdgeItem { EdgeItem(session: 0, body: .notice(NoticeMapping.blank)) }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__EdgeItem>?) {
    callmesh__v1__edge_item__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    c.number(&value.session, &m.session)
    c.time(&value.ringsSince, microseconds: &m.rings_since_us)
    var ticket: SessionTicket?
    if !C.reads, case .reply(_, .attached(_, let said)) = value.body { ticket = said }
    c.ticket(
      &ticket, &m.ticket_high, &m.ticket_low, &m.ticket_times,
      &m.ticket_key)
    var body = Choice(c, m.body_case, value.body.member)
    try body.message(
      &value.body, DeliveryMapping.self, CALLMESH__V1__EDGE_ITEM__BODY_DELIVERY, &m.delivery,
      { .delivery($0) },
      { if case .delivery(let delivery) = $0 { delivery } else { nil } })
    try body.message(
      &value.body, ShardReplyMapping.self, CALLMESH__V1__EDGE_ITEM__BODY_REPLY, &m.reply,
      { .reply(request: $0, $1) },
      { if case .reply(let request, let reply) = $0 { (request, reply) } else { nil } })
    try body.message(
      &value.body, KnownNoticeMapping.self, CALLMESH__V1__EDGE_ITEM__BODY_NOTICE, &m.notice,
      { .notice($0) },
      { if case .notice(let notice) = $0 { notice } else { nil } })
    try body.message(
      &value.body, CloseMapping.self, CALLMESH__V1__EDGE_ITEM__BODY_CLOSE, &m.close, { .close($0) },
      { if case .close(let notice) = $0 { notice } else { nil } })
    try body.end(&m.body_case, "item")
    if C.reads, case .reply(let request, .attached(let call, _)) = value.body {
      value.body = .reply(request: request, .attached(forCall: call, ticket: ticket))
    }
  }
}

extension EdgeItem.Body {
  fileprivate var member: Callmesh__V1__EdgeItem__BodyCase {
    switch self {
    case .delivery: CALLMESH__V1__EDGE_ITEM__BODY_DELIVERY
    case .reply: CALLMESH__V1__EDGE_ITEM__BODY_REPLY
    case .notice: CALLMESH__V1__EDGE_ITEM__BODY_NOTICE
    case .close: CALLMESH__V1__EDGE_ITEM__BODY_CLOSE
    }
  }
}

/// Nodes refuse a kind that they do not know.
private enum KnownNoticeMapping: Mapping {
  static var blank: Notice { NoticeMapping.blank }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__Notice>?) {
    callmesh__v1__notice__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try NoticeMapping.code(c, &value, &m)
    if C.reads, value.kind == .unknown { try c.fail(.field("kind")) }
  }
}

private enum CloseMapping: Mapping {
  static var blank: Notice { NoticeMapping.blank }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__CloseSession>?) {
    callmesh__v1__close_session__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.message(KnownNoticeMapping.self, &value, &m.notice, "notice")
  }
}

/// The shard's reply: what the edge knows of the session it adds itself.
private enum ShardReplyMapping: Mapping {
  typealias Value = (request: UInt64, reply: Reply)
  static var blank: Value { (0, .done) }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__Reply>?) {
    callmesh__v1__reply__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    c.number(&value.request, &m.id)
    var reply = Choice(c, m.result_case, value.reply.member)
    try reply.message(
      &value.reply, callmesh__v1__done__init, CALLMESH__V1__REPLY__RESULT_DONE, &m.done, is: .done)
    try reply.message(
      &value.reply, CallStateMapping.self, CALLMESH__V1__REPLY__RESULT_CALL, &m.call, { .call($0) },
      { if case .call(let state) = $0 { state } else { nil } })
    try reply.message(
      &value.reply, AnswerResultMapping.self, CALLMESH__V1__REPLY__RESULT_ANSWER, &m.answer,
      { .answer(won: $0, $1) },
      { if case .answer(let won, let state) = $0 { (won, state) } else { nil } })
    try reply.message(
      &value.reply, ErrorMapping.self, CALLMESH__V1__REPLY__RESULT_ERROR, &m.error, { .error($0) },
      { if case .error(let error) = $0 { error } else { nil } })
    try reply.message(
      &value.reply, ShardAttachedMapping.self, CALLMESH__V1__REPLY__RESULT_ATTACHED, &m.attached,
      { .attached(forCall: $0, ticket: nil) },
      { if case .attached(let call, _) = $0 { .some(call) } else { nil } })
    try reply.message(
      &value.reply, RegisteredMapping.self, CALLMESH__V1__REPLY__RESULT_REGISTERED, &m.registered,
      { .registered(expiresAt: $0.expiresAt, removed: $0.removed, capabilities: $0.capabilities) },
      {
        guard case .registered(let expiresAt, let removed, let capabilities) = $0 else {
          return nil
        }
        return RegisteredInfo(
          device: "", expiresAt: expiresAt, removed: removed, capabilities: capabilities)
      })
    try reply.message(
      &value.reply, CallListMapping.self, CALLMESH__V1__REPLY__RESULT_CALLS, &m.calls,
      { .calls($0) },
      { if case .calls(let calls) = $0 { calls } else { nil } })
    try reply.end(&m.result_case, "result")
  }
}

extension Reply {
  fileprivate var member: Callmesh__V1__Reply__ResultCase {
    switch self {
    case .done: CALLMESH__V1__REPLY__RESULT_DONE
    case .call: CALLMESH__V1__REPLY__RESULT_CALL
    case .answer: CALLMESH__V1__REPLY__RESULT_ANSWER
    case .error: CALLMESH__V1__REPLY__RESULT_ERROR
    case .attached: CALLMESH__V1__REPLY__RESULT_ATTACHED
    case .registered: CALLMESH__V1__REPLY__RESULT_REGISTERED
    case .calls: CALLMESH__V1__REPLY__RESULT_CALLS
    }
  }
}

private enum ShardAttachedMapping: Mapping {
  static var blank: CallState? { nil }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__Attached>?) {
    callmesh__v1__attached__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.optional(CallStateMapping.self, &value, &m.for_call)
  }
}

// MARK: What nodes say of themselves

enum HeartbeatMapping: Mapping {
  static var blank: Heartbeat {
    Heartbeat(
      node: "", role: .edge, incarnation: 0, state: .serving, version: "", shardCount: 0, reads: 1)
  }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__Heartbeat>?) {
    callmesh__v1__heartbeat__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.format(&m.format, writes: ClusterCodec.firstFormat, .said)
    try c.text(&value.node, &m.node, "node")
    try c.known(&value.role, &m.role, "role")
    c.number(&value.incarnation, &m.incarnation)
    try c.known(&value.state, &m.state, "state")
    try c.text(&value.version, &m.version, "version")
    c.number(&value.shardCount, &m.shard_count)
    c.number(&value.reads, &m.reads)
    if C.reads { value.reads = max(1, value.reads) }
    try c.array(
      SilentEdgeMapping.self, &value.silentEdges, &m.n_silent_edges, &m.silent_edges)
  }
}

private enum SilentEdgeMapping: Mapping {
  static var blank: SilentEdge { SilentEdge(edge: 0, since: .milliseconds(0)) }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__SilentEdge>?) {
    callmesh__v1__silent_edge__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    c.number(&value.edge, &m.edge)
    c.flag(&value.isLost, &m.is_lost)
    var since = UInt32(clamping: value.since.microseconds / 1000)
    c.number(&since, &m.since_ms)
    if C.reads { value.since = .milliseconds(Int64(since)) }
  }
}

enum AnnounceRequestMapping: Mapping {
  static var blank: AnnounceRequest { AnnounceRequest(shard: 0, epoch: 0) }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__AnnounceRequest>?) {
    callmesh__v1__announce_request__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.format(&m.format, writes: ClusterCodec.firstFormat, .said)
    c.number(&value.shard, &m.shard)
    c.number(&value.epoch, &m.epoch)
    c.number(&value.number, &m.number)
  }
}

enum AnnounceDoneMapping: Mapping {
  static var blank: AnnounceDone { AnnounceDone(shard: 0, epoch: 0, edge: 0) }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__AnnounceDone>?) {
    callmesh__v1__announce_done__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.format(&m.format, writes: ClusterCodec.firstFormat, .said)
    c.number(&value.shard, &m.shard)
    c.number(&value.epoch, &m.epoch)
    c.number(&value.edge, &m.edge)
    c.number(&value.number, &m.number)
    c.secret(&value.secret, &m.secret_high, &m.secret_low)
    // 0: not said.
    var said = value.sessions.map { UInt64(clamping: $0) + 1 } ?? 0
    c.number(&said, &m.sessions_said)
    if C.reads { value.sessions = said == 0 ? nil : Int(clamping: said - 1) }
  }
}

enum LeaseMapping: Mapping {
  static var blank: Lease { Lease(owner: "", incarnation: 0, epoch: 0, released: false) }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__Lease>?) {
    callmesh__v1__lease__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.format(&m.format, writes: ClusterCodec.firstFormat, .said)
    try c.text(&value.owner, &m.owner, "owner")
    c.number(&value.incarnation, &m.incarnation)
    c.number(&value.epoch, &m.epoch)
    c.flag(&value.released, &m.released)
    c.numbers(&value.refusedBy, &m.n_refused_by, &m.refused_by)
    try c.text(&value.refusal, &m.refusal, "refusal")
  }
}

enum ClusterRecordMapping: Mapping {
  static var blank: ClusterRecord { ClusterRecord(cluster: "", shardCount: 0) }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__ClusterRecord>?) {
    callmesh__v1__cluster_record__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.format(&m.format, writes: ClusterCodec.firstFormat, .kept)
    try c.text(&value.cluster, &m.cluster, "cluster")
    c.number(&value.shardCount, &m.shard_count)
  }
}
