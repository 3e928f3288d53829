internal import CCallProto
internal import CallCore

/// What coordinators say to edges, and nodes of themselves.
extension Packer {
  func edgeBatch(_ value: EdgeBatch) -> UnsafeMutablePointer<Callmesh__V1__EdgeBatch> {
    let message = arena.make(callmesh__v1__edge_batch__init)
    message.pointee.format = ClusterCodec.firstFormat
    message.pointee.n_items = value.items.count
    message.pointee.items = array(value.items, edgeItem)
    return message
  }

  private func edgeItem(_ value: EdgeItem) -> UnsafeMutablePointer<Callmesh__V1__EdgeItem> {
    let message = arena.make(callmesh__v1__edge_item__init)
    message.pointee.session = value.session
    message.pointee.rings_since_us = value.ringsSince?.microseconds ?? 0
    switch value.body {
    case .reply(let request, let reply):
      message.pointee.body_case = CALLMESH__V1__EDGE_ITEM__BODY_REPLY
      message.pointee.reply = self.reply(request, reply)
      if case .attached(_, let ticket?) = reply {
        message.pointee.ticket_high = ticket.high
        message.pointee.ticket_low = ticket.low
        message.pointee.ticket_times = ticket.times
        message.pointee.ticket_key = ticket.key
      }
    case .delivery(let delivery):
      message.pointee.body_case = CALLMESH__V1__EDGE_ITEM__BODY_DELIVERY
      message.pointee.delivery = self.delivery(delivery)
    case .notice(let notice):
      message.pointee.body_case = CALLMESH__V1__EDGE_ITEM__BODY_NOTICE
      message.pointee.notice = self.notice(notice)
    case .close(let notice):
      let close = arena.make(callmesh__v1__close_session__init)
      close.pointee.notice = self.notice(notice)
      message.pointee.body_case = CALLMESH__V1__EDGE_ITEM__BODY_CLOSE
      message.pointee.close = close
    }
    return message
  }

  /// The shard's reply: what the edge knows of the session it adds itself.
  private func reply(
    _ request: UInt64, _ value: Reply
  ) -> UnsafeMutablePointer<Callmesh__V1__Reply> {
    let message = arena.make(callmesh__v1__reply__init)
    message.pointee.id = request
    switch value {
    case .error(let error):
      message.pointee.result_case = CALLMESH__V1__REPLY__RESULT_ERROR
      message.pointee.error = self.error(error)
    case .done:
      message.pointee.result_case = CALLMESH__V1__REPLY__RESULT_DONE
      message.pointee.done = arena.make(callmesh__v1__done__init)
    case .attached(let forCall, _):
      let attached = arena.make(callmesh__v1__attached__init)
      attached.pointee.for_call = forCall.map(callState)
      message.pointee.result_case = CALLMESH__V1__REPLY__RESULT_ATTACHED
      message.pointee.attached = attached
    case .registered(let expiresAt, let removed, let capabilities):
      message.pointee.result_case = CALLMESH__V1__REPLY__RESULT_REGISTERED
      message.pointee.registered = registered(
        device: "", expiresAt: expiresAt, removed: removed, capabilities: capabilities)
    case .call(let state):
      message.pointee.result_case = CALLMESH__V1__REPLY__RESULT_CALL
      message.pointee.call = callState(state)
    case .answer(let won, let state):
      message.pointee.result_case = CALLMESH__V1__REPLY__RESULT_ANSWER
      message.pointee.answer = answerResult(won: won, state)
    case .calls(let live):
      message.pointee.result_case = CALLMESH__V1__REPLY__RESULT_CALLS
      message.pointee.calls = callList(live)
    }
    return message
  }

  func heartbeat(_ value: Heartbeat) -> UnsafeMutablePointer<Callmesh__V1__Heartbeat> {
    let message = arena.make(callmesh__v1__heartbeat__init)
    set(&message.pointee.node, value.node)
    message.pointee.role = .init(rawValue: .init(value.role.rawValue))
    message.pointee.incarnation = value.incarnation
    message.pointee.state = .init(rawValue: .init(value.state.rawValue))
    set(&message.pointee.version, value.version)
    message.pointee.shard_count = value.shardCount
    message.pointee.format = ClusterCodec.firstFormat
    message.pointee.reads = value.reads
    message.pointee.n_silent_edges = value.silentEdges.count
    message.pointee.silent_edges = array(value.silentEdges, silentEdge)
    return message
  }

  private func silentEdge(
    _ value: SilentEdge
  ) -> UnsafeMutablePointer<Callmesh__V1__SilentEdge> {
    let message = arena.make(callmesh__v1__silent_edge__init)
    message.pointee.edge = value.edge
    message.pointee.is_lost = value.isLost ? 1 : 0
    message.pointee.since_ms = UInt32(clamping: value.since.microseconds / 1000)
    return message
  }

  func announceRequest(
    _ value: AnnounceRequest
  ) -> UnsafeMutablePointer<Callmesh__V1__AnnounceRequest> {
    let message = arena.make(callmesh__v1__announce_request__init)
    message.pointee.shard = value.shard
    message.pointee.epoch = value.epoch
    message.pointee.number = value.number
    message.pointee.format = ClusterCodec.firstFormat
    return message
  }

  func announceDone(
    _ value: AnnounceDone
  ) -> UnsafeMutablePointer<Callmesh__V1__AnnounceDone> {
    let message = arena.make(callmesh__v1__announce_done__init)
    message.pointee.number = value.number
    message.pointee.sessions_said = value.sessions.map { UInt64(clamping: $0) + 1 } ?? 0
    message.pointee.shard = value.shard
    message.pointee.epoch = value.epoch
    message.pointee.edge = value.edge
    message.pointee.format = ClusterCodec.firstFormat
    message.pointee.secret_high = value.secret?.high ?? 0
    message.pointee.secret_low = value.secret?.low ?? 0
    return message
  }

  func lease(_ value: Lease) -> UnsafeMutablePointer<Callmesh__V1__Lease> {
    let message = arena.make(callmesh__v1__lease__init)
    set(&message.pointee.owner, value.owner)
    message.pointee.incarnation = value.incarnation
    message.pointee.epoch = value.epoch
    message.pointee.released = value.released ? 1 : 0
    message.pointee.format = ClusterCodec.firstFormat
    if !value.refusedBy.isEmpty {
      let numbers = arena.pointers(UInt64.self, count: value.refusedBy.count)
      numbers.initialize(from: value.refusedBy, count: value.refusedBy.count)
      message.pointee.n_refused_by = value.refusedBy.count
      message.pointee.refused_by = numbers
    }
    set(&message.pointee.refusal, value.refusal)
    return message
  }

  func clusterRecord(
    _ value: ClusterRecord
  ) -> UnsafeMutablePointer<Callmesh__V1__ClusterRecord> {
    let message = arena.make(callmesh__v1__cluster_record__init)
    message.pointee.format = ClusterCodec.firstFormat
    set(&message.pointee.cluster, value.cluster)
    message.pointee.shard_count = value.shardCount
    return message
  }
}
