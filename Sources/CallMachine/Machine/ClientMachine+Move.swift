import CallCore
import CallWire

// Moving from an edge that shuts down, or to a nearer one: the device attaches to another edge while the
// former connection still serves, so that it can be rung at every moment.
extension ClientMachine {
  /// The state of a move to another edge.
  struct Move: Sendable {
    enum Phase: Sendable {
      case waiting(until: Timestamp)
      case connecting(deadline: Timestamp)
      case attaching(deadline: Timestamp)
    }
    var edge: Int
    var phase: Phase
    var request: UInt64 = 0
    var failures = 0
    /// The device prefers the other edge, and stays if that does not take it.
    var isToNearer = false

    /// When the next step is due.
    var deadline: Timestamp {
      switch phase {
      case .waiting(let at), .connecting(let at), .attaching(let at): at
      }
    }
  }

  struct DrainingEdge: Sendable {
    var edge: Int
    var until: Timestamp
  }

  // MARK: Which edge

  /// Remembers that an edge shuts down.
  mutating func noteDraining(_ edge: Int, now: Timestamp) {
    guard edge < configuration.edges.count else { return }
    drainingEdges.removeAll { $0.edge == edge || $0.until <= now }
    drainingEdges.append(DrainingEdge(edge: edge, until: now + configuration.drainingEdgeAvoided))
  }

  /// The next edge in turn that is not shutting down; simply the next one if all are, or after a
  /// failure: an edge may have restarted meanwhile, and the others may be in trouble.
  func edgeAfter(_ edge: Int, now: Timestamp) -> Int {
    let count = configuration.edges.count
    // Behind a nearer edge comes the one that the device left for it.
    let edge = edge < count ? edge : listedEdge + count - 1
    guard failures == 0 else { return (edge + 1) % count }
    for step in 1...count {
      let candidate = (edge + step) % count
      if !drainingEdges.contains(where: { $0.edge == candidate && now < $0.until }) {
        return candidate
      }
    }
    return (edge + 1) % count
  }

  // MARK: Steps

  /// Begins to move, or brings a move forward. The edge spreads its devices over time by its hint.
  mutating func beginMove(after hint: Span, _ turn: inout Turn) {
    guard state == .attached else { return }
    let jitter = Int64.random(in: 0...max(1, hint.microseconds / 8), using: &turn.random)
    let until = turn.now + hint + Span(microseconds: jitter)
    if case .waiting? = move?.phase, move?.isToNearer == true { move = nil }
    guard let present = move else {
      move = Move(edge: edgeAfter(edge, now: turn.now), phase: .waiting(until: until))
      return
    }
    move?.isToNearer = false
    // After a failure the wait is not cut short: the other edge may be in trouble.
    if case .waiting(let former) = present.phase, present.failures == 0, until < former {
      move?.phase = .waiting(until: until)
    }
  }

  /// Takes the move's next step if it is due.
  mutating func fireMove(_ turn: inout Turn) {
    guard let move, move.deadline <= turn.now else { return }
    switch move.phase {
    case .waiting:
      if move.isToNearer, !mayMoveToNearer(&turn) { return }
      self.move?.phase = .connecting(deadline: turn.now + configuration.attachTimeout)
      turn.actions.append(.connectNext(edge: move.edge))
    case .connecting, .attaching:
      turn.actions.append(.closeNext)
      moveFailed(&turn)
    }
  }

  mutating func nextOpened(_ turn: inout Turn) {
    guard case .connecting? = move?.phase else { return }
    let frame = attachFrame(now: turn.now)
    move?.request = frame.id
    move?.phase = .attaching(deadline: turn.now + configuration.attachTimeout)
    turn.actions.append(.sendNext(frame))
  }

  mutating func nextClosed(_ turn: inout Turn) {
    switch move?.phase {
    case .connecting, .attaching: moveFailed(&turn)
    case .waiting, nil: break
    }
  }

  mutating func nextReceived(_ frame: ServerFrame, _ turn: inout Turn) {
    guard let move, case .attaching = move.phase else { return }
    switch frame {
    case .reply(move.request, .attached(let info)):
      hasMoved(move)
      turn.actions.append(.switchOver)
      attached(info, move.request, &turn)
    case .reply(move.request, .error(let error)) where error.code != .draining:
      turn.actions.append(.closeNext)
      if Self.isFinal(error.code) {
        // The present session goes on; the app gets the refusal when it ends.
        self.move = nil
        if mayRenew(after: error) { askForToken(&turn) }
      } else {
        moveFailed(&turn)
      }
    case .reply(move.request, _), .notice:
      turn.actions.append(.closeNext)
      noteDraining(move.edge, now: turn.now)
      moveFailed(&turn)
    case .delivery(let delivery): delivered(delivery, &turn)
    // The reply to the attach comes first.
    case .reply, .ongoing, .history, .relays: break
    }
  }

  private mutating func hasMoved(_ move: Move) {
    edge = move.edge
    if move.isToNearer { nearerMoves += 1 }
    self.move = nil
  }

  /// The other edge does not take the device: tries the next one after a wait.
  private mutating func moveFailed(_ turn: inout Turn) {
    guard var move else { return }
    if move.isToNearer {
      self.move = nil
      return
    }
    let wait = backoff.pause(after: move.failures, random: &turn.random)
    move.failures += 1
    move.edge = edgeAfter(move.edge, now: turn.now)
    move.phase = .waiting(until: turn.now + wait)
    self.move = move
  }

  // MARK: The end of the former connection

  /// Makes the new connection the current one although its attach is unanswered. Returns false if
  /// there is none.
  mutating func switchEarly(_ turn: inout Turn) -> Bool {
    guard let move, case .attaching(let deadline) = move.phase else { return false }
    state = .attaching(deadline: deadline)
    attachRequest = move.request
    hasMoved(move)
    turn.actions.append(.switchOver)
    return true
  }

  /// The former connection broke before the move was complete.
  mutating func switchAfterBreak(_ turn: inout Turn) {
    guard let move else { return }
    if switchEarly(&turn) {
      return turn.actions.append(.event(.detached(retryAt: turn.now)))
    }
    switch move.phase {
    case .connecting(let deadline):
      state = .connecting(deadline: deadline)
      edge = move.edge
      self.move = nil
      turn.actions.append(.switchOver)
      turn.actions.append(.event(.detached(retryAt: turn.now)))
    case .waiting(let until) where move.failures > 0:
      edge = move.edge
      self.move = nil
      state = .waiting(until: until)
      turn.actions.append(.event(.detached(retryAt: until)))
    case .waiting, .attaching:
      self.move = nil
      wait(&turn)
    }
  }

  mutating func abandonMove(_ turn: inout Turn) {
    switch move?.phase {
    case .connecting, .attaching: turn.actions.append(.closeNext)
    case .waiting, nil: break
    }
    move = nil
  }
}
