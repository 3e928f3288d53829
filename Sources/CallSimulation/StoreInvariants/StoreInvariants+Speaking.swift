internal import CallBus
internal import CallCore
internal import CallJudge
internal import CallWire

/// Decide, append, then speak: a coordinator sends an effect to an edge only when an append that started
/// after its decision is stored, and the coordinator has learned that.
extension StoreInvariants {
  /// The identity of a command at the process that got it.
  struct SpokenTo: Hashable {
    var process: Int
    var session: SessionRef
    var request: UInt64
  }

  struct Asked {
    var shard: Int
    var device: DeviceID
    /// The last append that the process had started by then.
    var before: Mark
  }

  func delivered(_ node: SimNode, _ message: BusMessage) {
    guard let shard = shard(ofCommands: message.subject),
      let batch = try? ClusterCodec.commandBatch(message.bytes)
    else { return }
    let before = started[ProcessShard(process: node.number, shard: shard)] ?? .none
    for command in batch.commands where command.request != 0 {
      let key = SpokenTo(process: node.number, session: command.session, request: command.request)
      if waiting[key] != nil { continue }
      waiting[key] = Asked(shard: shard, device: command.device, before: before)
    }
  }

  private func shard(ofCommands subject: String) -> Int? {
    let parts = subject.utf8.split(separator: UInt8(ascii: "."))
    guard parts.count == 4, subject.isOfCommands else { return nil }
    return Int(Substring(parts[2]))
  }

  func published(_ node: SimNode, _ message: OutgoingMessage) {
    let prefix = "\(subjects.cluster).edge."
    guard message.subject.hasPrefix(prefix),
      let edge = UInt64(message.subject.dropFirst(prefix.count)),
      let batch = try? ClusterCodec.edgeBatch(message.bytes)
    else { return }
    for item in batch.items {
      let session = SessionRef(edge: edge, number: item.session)
      switch item.body {
      case .reply(let request, let reply):
        if request != 0 { check(reply, to: session, request, from: node) }
      case .delivery(let delivery): check(delivery, from: node)
      case .ongoing, .history, .name, .notice, .close, .visit: break
      }
    }
  }

  private func check(
    _ reply: Reply, to session: SessionRef, _ request: UInt64, from node: SimNode
  ) {
    let key = SpokenTo(process: node.number, session: session, request: request)
    guard let asked = waiting[key] else {
      return broken("\(node.name) answers a command that it never got")
    }
    let place = ProcessShard(process: node.number, shard: asked.shard)
    guard let stored = known[place], stored > asked.before else {
      return broken(
        "\(node.name) answers for shard \(asked.shard) before an append that began after the "
          + "command is known to be stored")
    }
    switch reply {
    case .answer(true, let state):
      guard shards[asked.shard].has(asked.device, state.call) else {
        return broken(
          "\(asked.device.text) is told that it won, which no record says", call: state.call)
      }
    case .call(let state), .answer(false, let state):
      check(epochOf: state.version, of: asked.shard, node, state.call)
    case .calls(let live):
      for state in live.placed + live.received {
        check(epochOf: state.version, of: asked.shard, node, state.call)
      }
    case .error, .done, .attached, .registered, .history, .rules, .app: break
    }
  }

  private func check(_ delivery: Delivery, from node: SimNode) {
    let callee = UserKey(app: app, user: delivery.callee)
    let shard = ShardHash.shard(of: callee, count: shardCount)
    check(epochOf: delivery.version, of: shard, node, delivery.call)
    guard shards[shard].placed.contains(delivery.call) else {
      return broken("\(node.name) tells of a call that is in no record", call: delivery.call)
    }
    switch delivery.event {
    case .answered(let answered):
      if !shards[shard].has(answered.by.device, delivery.call) {
        broken("the caller is told of an answer that is in no record", call: delivery.call)
      }
    case .stop(let stop):
      let isRefuser =
        stop.reason.isOwnPart
        && stop.by.map { shards[shard].refusers[delivery.call]?.contains($0.device) ?? false }
          ?? false
      let isOver =
        stop.reason == .answeredElsewhere
        ? shards[shard].winners[delivery.call] != nil
          || shards[shard].gaveWay.contains(delivery.call)
        : shards[shard].ended.contains(delivery.call)
      let isMoved =
        (stop.reason == .moved || stop.reason == .transferred)
        && shards[shard].holders[delivery.call] != nil
      let isLeft =
        (stop.reason == .unanswered || stop.reason == .declined)
        && shards[shard].left.contains(delivery.call)
      // `HistoryChecker` judges the stops of devices that rang for a transfer.
      let isOfTransfer = shards[shard].transferred.contains(delivery.call)
      if !isRefuser, !isOver, !isMoved, !isLeft, !isOfTransfer {
        broken("a device is told to stop, which no record says", call: delivery.call)
      }
    case .moved(let moved):
      if !shards[shard].has(moved.to.device, delivery.call) {
        broken("a device is told of a move that is in no record", call: delivery.call)
      }
    case .invite, .ringing, .ringsUntil, .signal, .transfer: break
    }
  }

  /// Versions carry the epoch of the owner that made them. Only that owner may send them, after its fence
  /// is stored.
  private func check(epochOf version: UInt64, of shard: Int, _ node: SimNode, _ call: CallID) {
    let epoch = version >> 20
    guard epoch != 0 else { return }
    guard let owner = shards[shard].owners[epoch], owner.process == node.number else {
      return broken(
        "\(node.name) speaks for shard \(shard) in epoch \(epoch), which is not its own",
        call: call)
    }
    let stored = known[ProcessShard(process: node.number, shard: shard)] ?? .none
    if stored.epoch < epoch {
      broken("\(node.name) speaks for shard \(shard) before its fence is stored", call: call)
    }
  }
}

extension String {
  /// Whether it is a subject of commands to a shard, from any kind of node.
  var isOfCommands: Bool {
    hasSuffix(".commands") || hasSuffix(".reports") || hasSuffix(".peers")
  }
}
