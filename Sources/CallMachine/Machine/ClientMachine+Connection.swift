package import CallCore
package import CallWire

// Reports of the connection, and the attach of the device.
extension ClientMachine {
  /// The WebSocket is open.
  package mutating func opened(on link: Link = .current, _ turn: inout Turn) {
    if case .next = link { return nextOpened(&turn) }
    guard case .connecting = state else { return }
    lastContact = turn.now
    state = .attaching(deadline: turn.now + configuration.attachTimeout)
    let frame = attachFrame(now: turn.now)
    attachRequest = frame.id
    turn.actions.append(.send(frame))
  }

  mutating func attachFrame(now: Timestamp) -> ClientFrame {
    let frame = nextFrame(
      .attach(
        AttachRequest(
          token: token, device: configuration.device, forCall: wokenFor.last,
          deviceName: configuration.deviceName, client: configuration.client,
          wantsNearer: configuration.followsNearer, onlyPlaces: configuration.onlyPlaces,
          wantsOngoing: configuration.wantsOngoing, wantsHistory: configuration.wantsHistory,
          wantsRelays: configuration.wantsRelays)))
    if unansweredAttaches.count == Self.unansweredAttachesMax { unansweredAttaches.removeFirst() }
    unansweredAttaches.append((frame.id, now))
    return frame
  }

  private static let unansweredAttachesMax = 8
  /// How long an attach may stay in flight: the time for which an edge can be cut off from the
  /// cluster before its connections to NATS are closed.
  static let attachInFlightMax: Span = .seconds(120)

  /// Whether an earlier attach of this same device may have replaced its session.
  private func mayHaveReplacedItself(now: Timestamp) -> Bool {
    unansweredAttaches.contains {
      $0.request != attachRequest && now < $0.at + Self.attachInFlightMax
    }
  }

  /// The connection broke, was closed, or could not be made.
  /// - Parameter code: the code of the edge's close frame; nil: there was none.
  package mutating func closed(
    on link: Link = .current, code: UInt16? = nil, _ turn: inout Turn
  ) {
    if case .next = link { return nextClosed(&turn) }
    switch state {
    case .stopped, .waiting: return
    case .connecting, .attaching, .attached: break
    }
    switch code {
    // The app decides whether the device begins anew. One that came back by itself would undo its removal.
    case CloseCode.deviceRemoved:
      refuse(CallError(.unknownDevice, "The device was removed."), &turn)
    case CloseCode.tokenExpired, CloseCode.tokensRevoked: tokenEnded(&turn)
    case _ where move != nil: switchAfterBreak(&turn)
    case CloseCode.tooFast: wait(atLeast: .seconds(60), &turn)
    default: wait(&turn)
    }
  }

  /// Close codes of edges that decide when a device comes back.
  private enum CloseCode {
    static let deviceRemoved: UInt16 = 4001
    static let tooFast: UInt16 = 4006
    static let tokenExpired: UInt16 = 4008
    static let tokensRevoked: UInt16 = 4009
  }

  /// Notes that bytes arrived on the current connection, a ping included.
  package mutating func noteContact(now: Timestamp) { lastContact = now }

  /// Takes a frame. Call `readCompleted` after the last frame of a burst.
  package mutating func received(
    _ frame: ServerFrame, on link: Link = .current, _ turn: inout Turn
  ) {
    if case .next = link { return nextReceived(frame, &turn) }
    lastContact = turn.now
    switch frame {
    case .reply(let id, let reply):
      if case .attaching = state, id == attachRequest {
        attachReplied(reply, &turn)
      } else {
        replied(id, reply, &turn)
      }
    case .delivery(let delivery): delivered(delivery, &turn)
    case .notice(let notice): noticed(notice, &turn)
    case .ongoing(let ongoing): shown(ongoing, &turn)
    case .history(let history): changed(history, &turn)
    case .relays(let relays): turn.actions.append(.event(.relays(relays)))
    }
  }

  mutating func connect(_ turn: inout Turn) {
    state = .connecting(deadline: turn.now + configuration.attachTimeout)
    if edge == configuration.edges.count { edge = listedEdge }
    turn.actions.append(.connect(edge: edge))
  }

  /// Schedules an attempt at the next edge: at a random moment of `reconnectSpread` after a session
  /// broke, otherwise after a wait that doubles with each failure, with jitter of half.
  /// - Parameter isUnanswered: the last attempt got no answer in time.
  mutating func wait(
    atLeast minimum: Span = .seconds(0), isUnanswered: Bool = false, _ turn: inout Turn
  ) {
    let span: Span
    if state == .attached {
      let spread = max(0, configuration.reconnectSpread.microseconds)
      span = Span(microseconds: Int64.random(in: 0...spread, using: &turn.random))
    } else {
      span = backoff(isUnanswered).pause(after: failures, random: &turn.random)
      failures += 1
    }
    edge = edgeAfter(edge, now: turn.now)
    forgetAcks()
    let until = turn.now + Span(microseconds: max(minimum.microseconds, span.microseconds))
    state = .waiting(until: until)
    turn.actions.append(.event(.detached(retryAt: until)))
  }

  var backoff: Backoff { Backoff(configuration.backoffMinimum, to: configuration.backoffMaximum) }

  /// Where thousands of devices want to connect at once, edges that answer all of them too late answer none: then each
  /// waits longer, but no longer than after any failure, since it cannot be reached meanwhile. Few devices are in a
  /// call, and that ends when one of them stays away; who has tried for minutes is too late for it.
  private func backoff(_ isUnanswered: Bool) -> Backoff {
    let most = configuration.backoffMaximum
    if isInCall, failures < Self.attemptsInCallMax {
      return Backoff(configuration.backoffMinimum, to: min(most, Self.waitInCallMax))
    }
    guard isUnanswered else { return backoff }
    return Backoff(Span(microseconds: 4 * configuration.backoffMinimum.microseconds), to: most)
  }

  private static let waitInCallMax: Span = .seconds(2)
  private static let attemptsInCallMax = 60

  private mutating func attachReplied(_ reply: ServerReply, _ turn: inout Turn) {
    switch reply {
    case .attached(let info): attached(info, attachRequest, &turn)
    case .error(let error) where mayRenew(after: error):
      turn.actions.append(.close)
      wait(&turn)
      tokenRefused(&turn)
    case .error(let error) where Self.isFinal(error.code): refuse(error, &turn)
    case .error(let error):
      turn.actions.append(.close)
      wait(atLeast: .milliseconds(Int64(error.retryAfterMilliseconds)), &turn)
    case .done, .registered, .call, .answer, .calls, .history, .rules:
      turn.actions.append(.close)
      wait(&turn)
    }
  }

  /// The current connection is attached by the given request.
  mutating func attached(_ info: AttachedInfo, _ request: UInt64, _ turn: inout Turn) {
    attachRequest = request
    unansweredAttaches.removeAll {
      $0.request == request || $0.at + Self.attachInFlightMax <= turn.now
    }
    failures = 0
    state = .attached
    device = info.device
    user = info.user
    lastContact = turn.now
    pingedAt = nil
    clockOffset = info.serverTime - turn.now
    silenceMax = .milliseconds(max(10_000, Int64(info.pingSeconds) * 2500))
    turn.actions.append(.event(.attached(info, again: attachedBefore)))
    // Whatever an earlier connection has shown, and none is shown where the app does not have it.
    show(info.ongoing ?? OngoingCalls(version: 0), &turn)
    sendPending(&turn)
    wokenAttached(info, &turn)
    if attachedBefore { resumeCalls(&turn) }
    attachedBefore = true
    presentAddress = address(ofEdge: edge)
    noteNearer(info.nearer, &turn)
  }

  static func isFinal(_ code: CallError.Code) -> Bool {
    switch code {
    case .notAccepted, .expired, .tokenTooLong, .revoked, .forbidden, .invalidDevice, .invalidField,
      .unsupportedSubprotocol:
      true
    default: false
    }
  }

  mutating func refuse(_ error: CallError, _ turn: inout Turn) {
    state = .stopped
    turn.actions.append(.close)
    abandonMove(&turn)
    turn.actions.append(.event(.refused(error)))
  }

  private mutating func noticed(_ notice: Notice, _ turn: inout Turn) {
    turn.actions.append(.event(.notice(notice)))
    switch notice.kind {
    case .sessionReplaced:
      // Replaced by the connection that this device moves to, or by another copy of the device.
      // Reconnecting would replace that copy's session in turn, for ever.
      if switchEarly(&turn) { return }
      if mayHaveReplacedItself(now: turn.now) {
        // Only this device can tell which of the two sessions it still has.
        abandonMove(&turn)
        turn.actions.append(.close)
        return wait(&turn)
      }
      refuse(CallError(.alreadyAttached, "The device attached elsewhere."), &turn)
    // The app decides whether to register again.
    case .deviceRemoved, .tokenTaken, .unknown: break
    case .tokenExpires: askForToken(&turn)
    case .nearer: noteNearer(notice.nearer, &turn)
    case .goAway:
      noteDraining(edge, now: turn.now)
      let hint = Span.milliseconds(Int64(notice.retryAfterMilliseconds))
      if state == .attached {
        beginMove(after: hint, &turn)
      } else {
        turn.actions.append(.close)
        wait(atLeast: hint, &turn)
      }
    }
  }
}

// A session ends with its token. The edge announces that, and a device that renews its token stays.
extension ClientMachine {
  /// Takes a new token; nil: none was available.
  package mutating func tokenRenewed(_ token: String?, _ turn: inout Turn) {
    tokenAwaitedUntil = nil
    guard let token else { return }
    self.token = token
    isTokenRefused = false
    if awaitsFirstToken {
      awaitsFirstToken = false
      failures = 0
      if case .waiting = state { return connect(&turn) }
    }
    // Another wait is not cut short: a new token that is refused as well must not cause attempts
    // without end.
    if state == .attached { enqueue(.renew(token: token), &turn) }
  }

  /// The app may never answer: then the token is requested again when it is next needed.
  mutating func askForToken(_ turn: inout Turn) {
    guard configuration.renewsToken, tokenAwaitedUntil.map({ $0 <= turn.now }) ?? true else {
      return
    }
    tokenAwaitedUntil = turn.now + configuration.newTokenTimeout
    turn.actions.append(.renewToken)
  }

  /// Whether another token can help.
  func mayRenew(after error: CallError) -> Bool {
    switch error.code {
    case .expired, .revoked: configuration.renewsToken
    // If a token was good before, the keys have changed. Otherwise a new token would have the same
    // mistake.
    case .notAccepted: configuration.renewsToken && attachedBefore
    default: false
    }
  }

  /// The session ended with its token: an attach with the same one would be refused.
  mutating func tokenEnded(_ turn: inout Turn) {
    if move != nil { switchAfterBreak(&turn) } else { wait(&turn) }
    if configuration.renewsToken { tokenRefused(&turn) }
  }

  /// An attach was refused for its token.
  mutating func tokenRefused(_ turn: inout Turn) {
    isTokenRefused = true
    askForToken(&turn)
  }

  /// It is time to connect, and there is no good token.
  mutating func awaitToken(_ turn: inout Turn) {
    state = .waiting(until: turn.now + backoff.pause(after: failures, random: &turn.random))
    failures += 1
    askForToken(&turn)
  }
}
