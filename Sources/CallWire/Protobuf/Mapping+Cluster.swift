internal import CCallProto
internal import CallCore

// Messages of coordinators to edges, and heartbeats, leases and records of nodes (cluster.proto).

extension Callmesh__V1__EdgeBatch: Root {
  static var blank: EdgeBatch { EdgeBatch(items: []) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__edge_batch__init(m) }
  static let layout = WireLayout(of: Self.self)
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.format(&m.format, writes: ClusterCodec.firstFormat, .said)
    guard C.reads else {
      return try c.array(&value.items, &m.n_items, &m.items)
    }
    value.items.reserveCapacity(m.n_items)
    for index in 0..<m.n_items {
      if let item = unsafe m.items?[index],
        let known = try? Unpacker(arena: c.arena).value(of: item)
      {
        value.items.append(known)
      } else {
        value.unreadable += 1
      }
    }
  }
}

extension Callmesh__V1__EdgeItem: Mapping {
  static var blank: EdgeItem { EdgeItem(session: 0, body: .notice(Callmesh__V1__Notice.blank)) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__edge_item__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    c.number(&value.session, &m.session)
    c.time(&value.ringsSince, microseconds: &m.rings_since_us)
    var ticket: SessionTicket?
    if !C.reads, case .reply(_, .attached(_, let said, _)) = value.body { ticket = said }
    c.ticket(&ticket, &m.ticket_high, &m.ticket_low, &m.ticket_times, &m.ticket_key)
    if C.reads {
      value.body = try body(c, &m, ticket)
    } else {
      m.body_case = try write(c, value.body, &m)
    }
  }

  private static func body<C: Coder>(_ c: C, _ m: inout Self, _ ticket: SessionTicket?) throws(C
    .Failure) -> EdgeItem.Body
  {
    switch m.body_case {
    case CALLMESH__V1__EDGE_ITEM__BODY_DELIVERY: return .delivery(try c.read(m.delivery))
    case CALLMESH__V1__EDGE_ITEM__BODY_REPLY:
      let reply = try c.pointer(&m.reply, "message")
      return unsafe .reply(request: reply.pointee.id, try reply.pointee.ofShard(c, ticket))
    case CALLMESH__V1__EDGE_ITEM__BODY_ONGOING: return .ongoing(try c.read(m.ongoing))
    case CALLMESH__V1__EDGE_ITEM__BODY_HISTORY: return .history(try c.read(m.history))
    case CALLMESH__V1__EDGE_ITEM__BODY_USER_NAME: return .name(try c.read(m.user_name))
    case CALLMESH__V1__EDGE_ITEM__BODY_VISIT:
      let (request, answer) = try c.read(m.visit)
      return .visit(request: request, answer)
    case CALLMESH__V1__EDGE_ITEM__BODY_NOTICE: return .notice(try known(c, c.read(m.notice)))
    case CALLMESH__V1__EDGE_ITEM__BODY_CLOSE: return .close(try known(c, c.read(m.close)))
    default: throw c.failure(.unknownMember("item"))
    }
  }

  /// Nodes refuse a kind that they do not know.
  private static func known<C: Coder>(_ c: C, _ notice: Notice) throws(C.Failure) -> Notice {
    guard notice.kind != .unknown else { throw c.failure(.field("kind")) }
    return notice
  }

  private static func write<C: Coder>(_ c: C, _ body: EdgeItem.Body, _ m: inout Self) throws(C
    .Failure) -> Callmesh__V1__EdgeItem__BodyCase
  {
    switch body {
    case .delivery(let delivery):
      return try c.write(delivery, &m.delivery, CALLMESH__V1__EDGE_ITEM__BODY_DELIVERY)
    case .ongoing(let ongoing):
      return try c.write(ongoing, &m.ongoing, CALLMESH__V1__EDGE_ITEM__BODY_ONGOING)
    case .history(let state):
      return try c.write(state, &m.history, CALLMESH__V1__EDGE_ITEM__BODY_HISTORY)
    case .name(let name):
      return try c.write(name, &m.user_name, CALLMESH__V1__EDGE_ITEM__BODY_USER_NAME)
    case .reply(let request, let reply):
      let message = try c.pointer(&m.reply, "message")
      unsafe message.pointee.id = request
      unsafe message.pointee.result_case = unsafe try message.pointee.write(c, reply)
      return CALLMESH__V1__EDGE_ITEM__BODY_REPLY
    case .visit(let request, let answer):
      return try c.write((request, answer), &m.visit, CALLMESH__V1__EDGE_ITEM__BODY_VISIT)
    case .notice(let notice):
      return try c.write(notice, &m.notice, CALLMESH__V1__EDGE_ITEM__BODY_NOTICE)
    case .close(let notice):
      return try c.write(notice, &m.close, CALLMESH__V1__EDGE_ITEM__BODY_CLOSE)
    }
  }
}

extension Callmesh__V1__CloseSession: Mapping {
  static var blank: Notice { Callmesh__V1__Notice.blank }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__close_session__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.message(&value, &m.notice, "notice")
  }
}

/// The shard's reply. The edge adds the data of the session.
extension Callmesh__V1__Reply {
  fileprivate func ofShard<C: Coder>(_ c: C, _ ticket: SessionTicket?) throws(C.Failure) -> Reply {
    switch result_case {
    case CALLMESH__V1__REPLY__RESULT_DONE: return .done
    case CALLMESH__V1__REPLY__RESULT_CALL: return .call(try c.read(call))
    case CALLMESH__V1__REPLY__RESULT_ANSWER:
      let (won, state) = try c.read(answer)
      return .answer(won: won, state)
    case CALLMESH__V1__REPLY__RESULT_ERROR: return .error(try c.read(error))
    case CALLMESH__V1__REPLY__RESULT_ATTACHED:
      let info = try c.read(attached)
      return .attached(forCall: info.forCall, ticket: ticket, ongoing: info.ongoing)
    case CALLMESH__V1__REPLY__RESULT_REGISTERED:
      let info = try c.read(registered)
      return .registered(
        expiresAt: info.expiresAt, removed: info.removed, capabilities: info.capabilities)
    case CALLMESH__V1__REPLY__RESULT_CALLS: return .calls(try c.read(calls))
    case CALLMESH__V1__REPLY__RESULT_HISTORY: return .history(try c.read(history))
    case CALLMESH__V1__REPLY__RESULT_RULES: return .rules(try c.read(rules))
    case CALLMESH__V1__REPLY__RESULT_APP: return .app(try c.read(app))
    default: throw c.failure(.unknownMember("result"))
    }
  }

  fileprivate mutating func write<C: Coder>(_ c: C, _ reply: Reply) throws(C.Failure)
    -> Callmesh__V1__Reply__ResultCase
  {
    switch reply {
    case .done: return try c.write((), &done, CALLMESH__V1__REPLY__RESULT_DONE)
    case .call(let state): return try c.write(state, &call, CALLMESH__V1__REPLY__RESULT_CALL)
    case .answer(let won, let state):
      return try c.write((won, state), &answer, CALLMESH__V1__REPLY__RESULT_ANSWER)
    case .error(let cause): return try c.write(cause, &error, CALLMESH__V1__REPLY__RESULT_ERROR)
    case .attached(let call, _, let ongoing):
      var info = Callmesh__V1__Attached.blank
      (info.forCall, info.ongoing) = (call, ongoing)
      return try c.write(info, &attached, CALLMESH__V1__REPLY__RESULT_ATTACHED)
    case .registered(let expiresAt, let removed, let capabilities):
      let info = RegisteredInfo(
        device: "", expiresAt: expiresAt, removed: removed, capabilities: capabilities)
      return try c.write(info, &registered, CALLMESH__V1__REPLY__RESULT_REGISTERED)
    case .calls(let live): return try c.write(live, &calls, CALLMESH__V1__REPLY__RESULT_CALLS)
    case .history(let page):
      return try c.write(page, &history, CALLMESH__V1__REPLY__RESULT_HISTORY)
    case .rules(let said): return try c.write(said, &rules, CALLMESH__V1__REPLY__RESULT_RULES)
    case .app(let reply): return try c.write(reply, &app, CALLMESH__V1__REPLY__RESULT_APP)
    }
  }
}

// MARK: Nodes

extension Callmesh__V1__Heartbeat: Root {
  static var blank: Heartbeat {
    Heartbeat(
      node: "", role: .edge, incarnation: 0, state: .serving, version: "", shardCount: 0, reads: 1)
  }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__heartbeat__init(m) }
  static let layout = WireLayout(of: Self.self)
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.format(&m.format, writes: ClusterCodec.firstFormat, .said)
    try c.text(&value.node, &m.node, "node")
    try c.known(&value.role, &m.role, "role")
    c.number(&value.incarnation, &m.incarnation)
    try c.known(&value.state, &m.state, "state")
    try c.text(&value.version, &m.version, "version")
    c.number(&value.shardCount, &m.shard_count)
    c.number(&value.reads, &m.reads)
    if C.reads { value.reads = max(1, value.reads) }
    try c.array(&value.silentEdges, &m.n_silent_edges, &m.silent_edges)
  }
}

extension Callmesh__V1__SilentEdge: Mapping {
  static var blank: SilentEdge { SilentEdge(edge: 0, since: .milliseconds(0)) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__silent_edge__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    c.number(&value.edge, &m.edge)
    c.flag(&value.isLost, &m.is_lost)
    c.flag(&value.isUnreachable, &m.is_unreachable)
    var since = UInt32(clamping: value.since.microseconds / 1000)
    c.number(&since, &m.since_ms)
    if C.reads { value.since = .milliseconds(Int64(since)) }
  }
}

extension Callmesh__V1__AnnounceRequest: Root {
  static var blank: AnnounceRequest { AnnounceRequest(shard: 0, epoch: 0) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__announce_request__init(m) }
  static let layout = WireLayout(of: Self.self)
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.format(&m.format, writes: ClusterCodec.firstFormat, .said)
    c.number(&value.shard, &m.shard)
    c.number(&value.epoch, &m.epoch)
    c.number(&value.number, &m.number)
    try c.text(&value.nearer, &m.nearer, "nearer")
  }
}

extension Callmesh__V1__AnnounceDone: Root {
  static var blank: AnnounceDone { AnnounceDone(shard: 0, epoch: 0, edge: 0) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__announce_done__init(m) }
  static let layout = WireLayout(of: Self.self)
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.format(&m.format, writes: ClusterCodec.firstFormat, .said)
    c.number(&value.shard, &m.shard)
    c.number(&value.epoch, &m.epoch)
    c.number(&value.edge, &m.edge)
    c.number(&value.number, &m.number)
    c.secret(&value.secret, &m.secret_high, &m.secret_low)
    // 0: absent.
    var said = value.sessions.map { UInt64(clamping: $0) + 1 } ?? 0
    c.number(&said, &m.sessions_said)
    if C.reads { value.sessions = said == 0 ? nil : Int(clamping: said - 1) }
  }
}

extension Callmesh__V1__Lease: Root {
  static var blank: Lease { Lease(owner: "", incarnation: 0, epoch: 0, released: false) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__lease__init(m) }
  static let layout = WireLayout(of: Self.self)
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.format(&m.format, writes: ClusterCodec.firstFormat, .said)
    try c.text(&value.owner, &m.owner, "owner")
    c.number(&value.incarnation, &m.incarnation)
    c.number(&value.epoch, &m.epoch)
    c.flag(&value.released, &m.released)
    try c.numbers(&value.refusedBy, &m.n_refused_by, &m.refused_by)
    try c.text(&value.refusal, &m.refusal, "refusal")
  }
}

extension Callmesh__V1__ClusterRecord: Root {
  static var blank: ClusterRecord { ClusterRecord(cluster: "", shardCount: 0) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__cluster_record__init(m) }
  static let layout = WireLayout(of: Self.self)
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.format(&m.format, writes: ClusterCodec.firstFormat, .kept)
    try c.text(&value.cluster, &m.cluster, "cluster")
    c.number(&value.shardCount, &m.shard_count)
  }
}
