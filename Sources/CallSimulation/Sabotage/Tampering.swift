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
  var said: Set<Said> = []
  /// The sessions that got their user's history state.
  private var toldHistory: Set<EdgeSession> = []
  /// The sessions of devices that won.
  var won: [CallID: EdgeSession] = [:]
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
  struct EdgeSession: Hashable {
    var subject: String
    var session: UInt64
  }

  struct Said: Hashable {
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
    if case .reply(let request, let reply) = item.body {
      guard let changed = changed(reply, in: item, to: subject) else { return [] }
      return [EdgeItem(session: item.session, body: .reply(request: request, changed))]
    }
    if case .history = item.body, sabotage == .historyChangeUntold {
      let session = EdgeSession(subject: subject, session: item.session)
      return toldHistory.insert(session).inserted ? [item] : []
    }
    guard case .delivery(let delivery) = item.body else { return [item] }
    return changed(delivery, in: item, to: subject)
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
