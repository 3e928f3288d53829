package import CallCore
package import CallWire

// What the connection reports, and how the device attaches.
extension ClientMachine {
  /// The WebSocket is open.
  package mutating func opened(
    _ link: Link = .current, now: Timestamp, into actions: inout [Action]
  ) {
    if case .next = link { return nextOpened(now: now, into: &actions) }
    guard case .connecting = state else { return }
    heardAt = now
    state = .attaching(deadline: now + configuration.attachTimeout)
    let frame = attachFrame(now: now)
    attachRequest = frame.id
    actions.append(.send(frame))
  }

  mutating func attachFrame(now: Timestamp) -> ClientFrame {
    let frame = nextFrame(
      .attach(
        AttachRequest(
          token: token, device: configuration.device, forCall: wokenFor.last,
          deviceName: configuration.deviceName, client: configuration.client)))
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
  package mutating func closed(
    _ link: Link = .current, now: Timestamp, random: inout some RandomNumberGenerator,
    into actions: inout [Action]
  ) {
    if case .next = link { return nextClosed(now: now, random: &random, into: &actions) }
    switch state {
    case .stopped, .waiting: return
    case .connecting, .attaching, .attached: break
    }
    if move != nil {
      switchAfterBreak(now: now, random: &random, into: &actions)
    } else {
      wait(atLeast: Span(microseconds: 0), now: now, random: &random, into: &actions)
    }
  }

  /// Notes that bytes arrived on a connection, a ping included.
  package mutating func heard(_ link: Link = .current, now: Timestamp) {
    if case .current = link { heardAt = now }
  }

  /// Takes a frame. Call `readCompleted` after the last frame of a burst.
  package mutating func received(
    _ frame: ServerFrame, on link: Link = .current, now: Timestamp,
    random: inout some RandomNumberGenerator, into actions: inout [Action]
  ) {
    if case .next = link {
      return nextReceived(frame, now: now, random: &random, into: &actions)
    }
    heardAt = now
    switch frame {
    case .reply(let id, let reply):
      if case .attaching = state, id == attachRequest {
        attachReplied(reply, now: now, random: &random, into: &actions)
      } else {
        replied(id, reply, now: now, random: &random, into: &actions)
      }
    case .delivery(let delivery): delivered(delivery, into: &actions)
    case .notice(let notice): noticed(notice, now: now, random: &random, into: &actions)
    }
  }

  mutating func connect(now: Timestamp, into actions: inout [Action]) {
    state = .connecting(deadline: now + configuration.attachTimeout)
    actions.append(.connect(edge: edge % configuration.edges.count))
  }

  /// Schedules an attempt at the next edge: at a random moment of `reconnectSpread` after a session
  /// broke, otherwise after a wait that doubles with each failure, with jitter of half.
  mutating func wait(
    atLeast minimum: Span, now: Timestamp, random: inout some RandomNumberGenerator,
    into actions: inout [Action]
  ) {
    let span: Span
    if state == .attached {
      let spread = max(0, configuration.reconnectSpread.microseconds)
      span = Span(microseconds: Int64.random(in: 0...spread, using: &random))
    } else {
      span = backoff(failures: failures, random: &random)
      failures += 1
    }
    edge = edgeAfter(edge, now: now)
    forgetAcks()
    let until = now + Span(microseconds: max(minimum.microseconds, span.microseconds))
    state = .waiting(until: until)
    actions.append(.event(.detached(retryAt: until)))
  }

  func backoff(failures: Int, random: inout some RandomNumberGenerator) -> Span {
    let doubled = configuration.backoffMinimum.microseconds << Int64(min(failures, 16))
    let ceiling = max(1, min(doubled, configuration.backoffMaximum.microseconds))
    return Span(microseconds: ceiling / 2 + Int64.random(in: 0...ceiling / 2, using: &random))
  }

  private mutating func attachReplied(
    _ reply: ServerReply, now: Timestamp, random: inout some RandomNumberGenerator,
    into actions: inout [Action]
  ) {
    switch reply {
    case .attached(let info): attached(info, attachRequest, now: now, into: &actions)
    case .error(let error) where mayRenew(after: error):
      actions.append(.close)
      wait(atLeast: Span(microseconds: 0), now: now, random: &random, into: &actions)
      tokenRefused(now: now, into: &actions)
    case .error(let error) where Self.isFinal(error.code): refuse(error, into: &actions)
    case .error(let error):
      actions.append(.close)
      wait(
        atLeast: .milliseconds(Int64(error.retryAfterMilliseconds)), now: now, random: &random,
        into: &actions)
    case .done, .registered, .call, .answer, .calls:
      actions.append(.close)
      wait(atLeast: Span(microseconds: 0), now: now, random: &random, into: &actions)
    }
  }

  /// The current connection is attached by the given request.
  mutating func attached(
    _ info: AttachedInfo, _ request: UInt64, now: Timestamp, into actions: inout [Action]
  ) {
    attachRequest = request
    unansweredAttaches.removeAll { $0.request == request || $0.at + Self.attachInFlightMax <= now }
    failures = 0
    state = .attached
    heardAt = now
    pingedAt = nil
    silenceMax = .milliseconds(max(10_000, Int64(info.pingSeconds) * 2500))
    actions.append(.event(.attached(info, again: attachedBefore)))
    sendPending(now: now, into: &actions)
    wokenAttached(info, now: now, into: &actions)
    if attachedBefore { resumeCalls(now: now, into: &actions) }
    attachedBefore = true
  }

  static func isFinal(_ code: CallError.Code) -> Bool {
    switch code {
    case .notAccepted, .expired, .tokenTooLong, .revoked, .forbidden, .invalidDevice, .invalidField,
      .unsupportedSubprotocol:
      true
    default: false
    }
  }

  mutating func refuse(_ error: CallError, into actions: inout [Action]) {
    state = .stopped
    actions.append(.close)
    abandonMove(into: &actions)
    actions.append(.event(.refused(error)))
  }

  private mutating func noticed(
    _ notice: Notice, now: Timestamp, random: inout some RandomNumberGenerator,
    into actions: inout [Action]
  ) {
    actions.append(.event(.notice(notice)))
    switch notice.kind {
    case .sessionReplaced:
      // Replaced by the connection that this device moves to, or by another copy of the device.
      // Reconnecting would replace that copy's session in turn, for ever.
      if switchEarly(into: &actions) { return }
      if mayHaveReplacedItself(now: now) {
        // Only this device knows which of the two sessions it still has.
        abandonMove(into: &actions)
        actions.append(.close)
        return wait(atLeast: Span(microseconds: 0), now: now, random: &random, into: &actions)
      }
      refuse(CallError(.alreadyAttached, "The device attached elsewhere."), into: &actions)
    // The app decides whether to register again.
    case .deviceRemoved, .tokenTaken, .unknown: break
    case .tokenExpires: askForToken(now: now, into: &actions)
    case .goAway:
      noteDraining(edge, now: now)
      let hint = Span.milliseconds(Int64(notice.retryAfterMilliseconds))
      if state == .attached {
        beginMove(after: hint, now: now, random: &random)
      } else {
        actions.append(.close)
        wait(atLeast: hint, now: now, random: &random, into: &actions)
      }
    }
  }
}
