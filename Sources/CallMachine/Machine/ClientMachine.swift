package import CallCore
package import CallWire

/// A device's connection and calls, without I/O: events go in, actions come out. Time and chance are
/// arguments.
///
/// The machine attaches, reconnects over the next edge when its connection breaks, moves to another
/// edge when its own shuts down, retransmits each command until it is answered, acknowledges every
/// delivery, and reports each event to the app once.
package struct ClientMachine: Sendable {
  package typealias Configuration = DeviceConfiguration

  package enum State: Sendable, Equatable {
    /// No attempts are made: not started, stopped by the app, or refused.
    case stopped
    /// Becomes connecting at the time given.
    case waiting(until: Timestamp)
    /// Becomes attaching or waiting.
    case connecting(deadline: Timestamp)
    /// Becomes attached, waiting or stopped.
    case attaching(deadline: Timestamp)
    case attached
  }

  package enum Action: Sendable, Equatable {
    /// Begin a connection to `address(ofEdge:)`, in place of any that is there.
    case connect(edge: Int)
    case send(ClientFrame)
    /// Close the connection; its events no longer matter.
    case close
    /// Begin a connection to `address(ofEdge:)` beside the current one, which still serves.
    case connectNext(edge: Int)
    /// Send over the connection that was begun by `connectNext`.
    case sendNext(ClientFrame)
    case closeNext
    /// The next connection becomes the current one; close the former.
    case switchOver
    /// Get a new token and call `tokenRenewed`. Requested again after `newTokenTimeout` at the
    /// earliest.
    case renewToken
    case event(ClientEvent)
  }

  /// The time at which an event is handled, chance, and what the machine decides: it appends to `actions`.
  package struct Turn {
    package var now: Timestamp
    package var random: SplitMix64
    package var actions: [Action]

    package init(now: Timestamp, random: SplitMix64, actions: [Action] = []) {
      (self.now, self.random, self.actions) = (now, random, actions)
    }
  }

  /// Which connection an event is from. There are two only while the device moves to another edge.
  package enum Link: Sendable { case current, next }

  package let configuration: Configuration
  package internal(set) var state: State = .stopped
  package internal(set) var calls: [CallID: CallView] = [:]
  /// This device's user, since the first attach.
  var user = ""
  /// The calls that the user is in, as far as the device knows. The version is of the present connection.
  package internal(set) var ongoing = OngoingCalls(version: 0)
  /// The state of the user's history that the app knows; nil: none yet.
  package internal(set) var history: HistoryState?
  var pending: [Pending] = []
  var lastRequest: UInt64 = 0
  var acks: [PendingAck] = []
  var acksDueAt: Timestamp?
  /// Acknowledgements of calls that the app has not claimed.
  var heldAcks: [PendingAck] = []
  var endedCalls: [CallID] = []
  var awaitedInvites: [AwaitedInvite] = []
  /// The edge of the current connection: a place in `edges`, or the place behind them for `nearerAddress`.
  var edge: Int
  /// The last edge of the list.
  var listedEdge: Int
  /// The nearer edge that is not in the list. It may have changed since the current connection was made.
  var nearerAddress = ""
  /// The address of the edge that the device is attached to.
  var presentAddress = ""
  /// Before this time the device does not move to a nearer edge.
  var nearerNotBefore = Timestamp(microseconds: 0)
  /// How often the device has moved to a nearer edge.
  package internal(set) var nearerMoves = 0
  var failures = 0
  var attachedBefore = false
  /// This device, as the cluster knows it.
  var device: DeviceID = ""
  var attachRequest: UInt64 = 0
  /// Attaches without an `attached` reply, oldest first. One may still be in flight when the device
  /// has attached elsewhere, and replace that session when it arrives.
  var unansweredAttaches: [(request: UInt64, at: Timestamp)] = []
  var lastContact = Timestamp(microseconds: 0)
  var silenceMax: Span = .seconds(75)
  /// The cluster's clock minus this device's; nil: the device was never attached.
  var clockOffset: Span?
  /// When the last `ping` was sent. It is outstanding until anything arrives.
  var pingedAt: Timestamp?
  /// While attached: the move to another edge before this one closes.
  var move: Move?
  /// Edges that announced their shutdown, and for how long each is avoided.
  var drainingEdges: [DrainingEdge] = []
  /// Calls named by pushes whose state the cluster has not reported yet. The attach asks about the
  /// last one; queries for the others follow it.
  var wokenFor: [CallID] = []
  /// The token for the next attach.
  var token: String
  /// A new token was requested and has not come: it is not requested again before this time.
  var tokenAwaitedUntil: Timestamp?
  /// The device was started without a token.
  var awaitsFirstToken = false
  /// An edge refused the present token, or there is none: no attempt is made with it.
  var isTokenRefused = false

  package init(_ configuration: Configuration) {
    self.configuration = configuration
    token = configuration.token
    edge = configuration.firstEdge % max(1, configuration.edges.count)
    listedEdge = edge
  }

  package var isAttached: Bool { state == .attached }
  /// Attached, and moving to another edge.
  package var isMoving: Bool { move != nil }
  package var pendingCount: Int { pending.count }

  // MARK: Calls by the app

  /// Connects, and keeps connected.
  package mutating func start(_ turn: inout Turn) {
    guard case .stopped = state, !configuration.edges.isEmpty else { return }
    if token.isEmpty, configuration.renewsToken {
      (isTokenRefused, awaitsFirstToken) = (true, true)
      awaitToken(&turn)
    } else {
      connect(&turn)
    }
  }

  /// Detaches and closes the connection for good.
  package mutating func stop(_ turn: inout Turn) {
    if state == .attached {
      sendAcks(&turn)
      turn.actions.append(.send(nextFrame(.detach)))
    }
    if state != .stopped { turn.actions.append(.close) }
    abandonMove(&turn)
    state = .stopped
    pending.removeAll()
    forgetAcks()
  }

  /// Reconnects at once instead of after the wait.
  package mutating func reconnectNow(_ turn: inout Turn) {
    guard case .waiting = state, !isTokenRefused else { return }
    connect(&turn)
  }
}
