internal import CallBus
internal import CallCore
internal import CallJudge
internal import CallWire

/// Puts one mistake into a world.
final class Tampering {
  let sabotage: Sabotage
  let nats: SimNATS
  var random: SimRandom
  var winners: [CallID: Party] = [:]
  /// Who has a side of an answered call, first the callee's and then the caller's.
  var holders: [CallID: [Party]] = [:]
  /// Calls that have stopped ringing at a device, and ring on.
  var left: Set<CallID> = []
  /// Each call's devices that no push was decided for.
  var legs: [CallID: [DeviceID]] = [:]
  var jobs = 0
  var swaps = SignalSwaps()
  /// The callers' present sessions.
  var callers: [CallID: UInt64] = [:]
  private var said: Set<Said> = []
  /// The sessions that got their user's history state.
  private var toldHistory: Set<EdgeSession> = []
  /// The transfers that shards were asked for.
  var transferred: Set<Transferred> = []
  let twice: Twice
  let credential: (Command) -> Credential

  enum Twice: CaseIterable {
    case signal
    case placing
    case answer
    case end
  }

  struct Transferred: Hashable {
    var user: UserKey
    var device: DeviceID
    var request: UInt64
  }

  /// Edges number their sessions independently.
  private struct EdgeSession: Hashable {
    var subject: String
    var session: UInt64
  }

  private struct Said: Hashable {
    var session: UInt64
    var call: CallID
    var version: UInt64
  }

  init(
    _ sabotage: Sabotage, _ world: SimWorld, _ nats: SimNATS, _ coordinators: [SimCoordinator],
    _ edges: [SimEdge], credential: @escaping (Command) -> Credential
  ) {
    self.sabotage = sabotage
    self.credential = credential
    self.nats = nats
    random = world.fork("sabotage")
    twice = Twice.allCases[Int(world.seed % UInt64(Twice.allCases.count))]
    for coordinator in coordinators {
      coordinator.onConnect = { [unowned self] bus in
        bus.filterOutgoing = { [unowned self] in toEdge($0) }
        bus.filterIncoming = { [unowned self] in toShard($0) }
      }
    }
    if sabotage == .placersAnnounced {
      for edge in edges { edge.onConnect = { $0.filterOutgoing = Self.announcingPlacers } }
    }
    if sabotage == .ongoingUnannounced {
      for edge in edges { edge.onConnect = { $0.filterOutgoing = Self.announcingNoOngoing } }
    }
    let unannounced: ((DeviceID) -> Bool)? =
      switch sabotage {
      case .announcementsIgnored: { _ in true }
      case .secondDeviceUnannounced: { $0.text == "d1" }
      default: nil
      }
    if let unannounced {
      for edge in edges {
        edge.onConnect = { $0.filterOutgoing = { Self.withoutAnnouncements($0, of: unannounced) } }
      }
    }
    prepareStore()
  }

  // MARK: At a device

  func receiving(_ frame: ServerFrame) -> ServerFrame {
    if sabotage == .attachAnsweredWrongly { return ringing(frame) }
    guard case .reply(let id, .answer(false, let state)) = frame else { return frame }
    let isTold =
      switch sabotage {
      case .twoWinners: state.reason == .answeredElsewhere
      case .takeoverInvented: state.phase == .answered
      default: false
      }
    return isTold ? .reply(id: id, .answer(won: true, state)) : frame
  }

  // MARK: From shards to edges

  private func toEdge(_ message: OutgoingMessage) -> OutgoingMessage? {
    guard message.subject.contains(".edge.") else { return message }
    var message = message
    let subject = message.subject
    message.bytes = Self.edit(message.bytes, ClusterCodec.edgeBatch, ClusterCodec.encode) {
      $0.items = $0.items.flatMap { changed($0, to: subject) }
    }
    return message
  }

  private func changed(_ item: EdgeItem, to subject: String) -> [EdgeItem] {
    if case .ongoing(let ongoing) = item.body, sabotage == .ongoingEndHidden {
      return ongoing.calls.isEmpty ? [] : [item]
    }
    if case .name = item.body, sabotage == .namesNotTold { return [] }
    if case .reply(_, .answer(won: true, _)) = item.body, sabotage == .winnerNotTold { return [] }
    if case .history = item.body, sabotage == .historyChangeUntold {
      let session = EdgeSession(subject: subject, session: item.session)
      return toldHistory.insert(session).inserted ? [item] : []
    }
    if case .reply(let request, .app(.calls(var list))) = item.body, sabotage == .liveCallUnlisted {
      list.calls = Array(list.calls.dropFirst())
      return [EdgeItem(session: item.session, body: .reply(request: request, .app(.calls(list))))]
    }
    guard case .delivery(var delivery) = item.body else { return [item] }
    func again() -> EdgeItem { EdgeItem(session: item.session, body: .delivery(delivery)) }
    switch (sabotage, delivery.event) {
    case (.notRepeated, _):
      let key = Said(session: item.session, call: delivery.call, version: delivery.version)
      return said.insert(key).inserted ? [item] : []
    case (.secondCallHidden, .invite(var invite)):
      invite.isSecondCall = false
      delivery.event = .invite(invite)
      return [again()]
    case (.survivorNotNamed, .stop(var stop)):
      stop.survivor = nil
      delivery.event = .stop(stop)
      return [again()]
    case (.callerNotTold, .stop):
      return callers[delivery.call] == item.session ? [] : [item]
    case (.formerNotStopped, .stop(let stop)): return stop.reason == .moved ? [] : [item]
    case (.endToldAsMoved, .stop(var stop)):
      if stop.reason == .hungUp { stop.reason = .moved }
      delivery.event = .stop(stop)
      return [again()]
    case (.moveNotTold, .moved): return []
    case (.transferEndUntold, .transfer(let news)): return news.reason == nil ? [item] : []
    case (.stopWithoutReason, .stop):
      delivery.event = .stop(Stop(reason: .failed))
      return [again()]
    case (.missedMistold, .stop(var stop)):
      stop.missed.toggle()
      delivery.event = .stop(stop)
      return [again()]
    case (.signalsEmptied, .signal(var signal)) where signal.index.isMultiple(of: 3):
      signal.body = ""
      delivery.event = .signal(signal)
      return [again()]
    case (.versionGoesBack, .stop):
      delivery.version = (delivery.version >> 20) << 20
      return [again()]
    case (.inviteAfterStop, .stop):
      delivery.version += 7
      delivery.event = .invite(
        Invite(caller: Party(user: "u1", device: "d0"), deadline: delivery.at))
      return [item, again()]
    default: return [item]
    }
  }

  // MARK: Records

  static func edit(_ bytes: [UInt8], _ change: (inout JournalRecord) -> Void) -> [UInt8] {
    edit(bytes, ClusterCodec.journalRecord, ClusterCodec.encode, change)
  }

  /// Changes what bytes encode. Bytes that cannot be read stay as they are.
  static func edit<Value>(
    _ bytes: [UInt8], _ decode: ([UInt8]) throws -> Value, _ encode: (Value) -> [UInt8],
    _ change: (inout Value) -> Void
  ) -> [UInt8] {
    guard var value = try? decode(bytes) else { return bytes }
    change(&value)
    return encode(value)
  }
}
