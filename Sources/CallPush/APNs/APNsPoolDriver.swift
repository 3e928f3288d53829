internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import Logging
internal import NIOCore

/// Performs the effects of `APNsPoolMachine` and passes events to it. Runs on one event loop.
final class APNsPoolDriver {
  /// The channel and the credentials of a connection.
  private final class Link {
    let handler: APNsChannelHandler
    let credentials: APNsCredentials
    var writer: APNsHeaderWriter
    var channel: (any Channel)?
    /// The machine has disconnected it.
    var isGone = false
    /// The values of the authorization header for the newest two tokens.
    var bearers: [(serial: UInt32, value: String)] = []

    init(handler: APNsChannelHandler, credentials: APNsCredentials, authority: String) {
      self.handler = handler
      self.credentials = credentials
      writer = APNsHeaderWriter(authority: authority)
    }

    func bearer(_ token: APNsTokenMachine.Token) throws -> String {
      if let known = bearers.last(where: { $0.serial == token.serial }) { return known.value }
      let value = "bearer " + (try credentials.token(issuedAt: token.issuedAtSeconds))
      bearers = bearers.suffix(1) + [(token.serial, value)]
      return value
    }

    func close() {
      isGone = true
      handler.close()
      channel?.close(promise: nil)
    }
  }

  private static let tickInterval = TimeAmount.milliseconds(50)
  private static let idleTickInterval = TimeAmount.seconds(1)

  private let endpoint: APNsEndpoint
  private let eventLoop: any EventLoop
  private let clock: ClusterClock
  private let report: APNsReport
  private var credentials: APNsCredentials
  private var machine: APNsPoolMachine
  private var isPerforming = false
  private var pending: [APNsPushKey: APNsPool.Submission] = [:]
  private var lastPush: APNsPushKey = 0
  private var links: [APNsConnectionID: Link] = [:]
  /// Connections that have been written to since the last flush.
  private var unflushed: [Link] = []
  private var timer: Scheduled<Void>?
  private var isTimerFast = false
  /// Channels that are being opened or are not closed yet, those of disconnected connections included.
  private var openChannels = 0
  private var isFinished = false
  private var whenClosed: [() -> Void] = []

  init(
    configuration: APNsConfiguration, endpoint: APNsEndpoint, eventLoop: any EventLoop,
    clock: ClusterClock, seed: UInt64, report: APNsReport
  ) {
    self.endpoint = endpoint
    self.eventLoop = eventLoop
    self.clock = clock
    self.report = report
    credentials = configuration.credentials
    machine = APNsPoolMachine(limits: configuration.limits, seed: seed, now: clock.now())
  }

  // MARK: Orders

  func start() {
    act { $0.start(now: $1) }
  }

  func submit(_ submissions: [APNsPool.Submission]) {
    for submission in submissions {
      lastPush += 1
      pending[lastPush] = submission
    }
    let first = lastPush - UInt64(submissions.count) + 1
    act { machine, now in
      for (offset, submission) in submissions.enumerated() {
        machine.submit(
          first + UInt64(offset), isUrgent: submission.message.isUrgent,
          deadline: submission.message.deadline, cancellation: submission.message.cancellation,
          now: now)
      }
    }
  }

  func dropCancelled() {
    act { $0.dropCancelled(now: $1) }
  }

  func update(_ credentials: APNsCredentials) {
    self.credentials = credentials
    act { $0.replaceKey(now: $1) }
  }

  func close(_ done: @escaping () -> Void) {
    whenClosed.append(done)
    act { $0.close(now: $1) }
    notifyIfClosed()
  }

  // MARK: Acting

  /// Lets the machine decide, then performs the effects. An event during that time is decided at once, and its effects
  /// follow afterwards.
  private func act(_ decide: (inout APNsPoolMachine, Timestamp) -> Void) {
    let now = clock.now()
    decide(&machine, now)
    guard !isPerforming else { return }
    isPerforming = true
    var batch: [APNsEffect] = []
    while !machine.effects.isEmpty {
      swap(&batch, &machine.effects)
      for effect in batch { perform(effect, now: now) }
      batch.removeAll(keepingCapacity: true)
    }
    isPerforming = false
    report.usable(machine.usableConnections)
    armTimer()
  }

  private func perform(_ effect: APNsEffect, now: Timestamp) {
    switch effect {
    case .connect(let id): connect(id)
    case .send(let id, let stream, let push, let token, let attempt):
      if attempt > 1 { report.retried() }
      send(push, on: id, stream: stream, token: token, now: now)
    case .ping(let id): links[id]?.handler.ping()
    case .disconnect(let id, _): links.removeValue(forKey: id)?.close()
    case .complete(let key, let result):
      pending.removeValue(forKey: key)?.done.resume(returning: result)
    case .note(let note): report.note(note, now: now)
    case .finished:
      isFinished = true
      notifyIfClosed()
    }
  }

  private func send(
    _ key: APNsPushKey, on id: APNsConnectionID, stream: UInt32, token: APNsTokenMachine.Token,
    now: Timestamp
  ) {
    guard let link = links[id], let submission = pending[key] else { return }
    guard let bearer = try? link.bearer(token) else {
      handle(.reset(stream: stream, isRefused: true), from: id)
      return
    }
    let headers = link.writer.headers(submission.request, bearer: bearer, now: now)
    link.handler.send(stream: stream, headers: headers, payload: submission.request.payload)
    if unflushed.isEmpty {
      // One flush for all writes in this turn of the loop.
      eventLoop.assumeIsolated().execute { self.flush() }
    }
    if !unflushed.contains(where: { $0 === link }) { unflushed.append(link) }
  }

  private func flush() {
    for link in unflushed { link.handler.flush() }
    unflushed.removeAll(keepingCapacity: true)
  }

  // MARK: Connections

  private func connect(_ id: APNsConnectionID) {
    report.opened()
    openChannels += 1
    let onEvent: (APNsChannelEvent) -> Void = { [weak self] event in
      self?.handle(event, from: id)
    }
    let link = Link(
      handler: APNsChannelHandler(onEvent: onEvent), credentials: credentials,
      authority: endpoint.authority)
    links[id] = link
    endpoint.connect(on: eventLoop, handler: link.handler)
      .assumeIsolated()
      .whenComplete { result in
        switch result {
        case .success(let channel):
          link.channel = channel
          channel.closeFuture.assumeIsolated().whenComplete { _ in
            self.channelClosed()
          }
          if link.isGone { link.close() }
        case .failure(let error):
          self.handle(.ended("connecting: \(error)"), from: id)
          self.channelClosed()
        }
      }
  }

  private func channelClosed() {
    openChannels -= 1
    notifyIfClosed()
  }

  private func notifyIfClosed() {
    guard isFinished, openChannels == 0 else { return }
    timer?.cancel()
    timer = nil
    let waiting = whenClosed
    whenClosed = []
    for done in waiting { done() }
  }

  private func handle(_ event: APNsChannelEvent, from id: APNsConnectionID) {
    act { machine, now in
      switch event {
      case .connected: machine.connected(id, now: now)
      case .read: machine.read(id, now: now)
      case .settings(let maxStreams):
        machine.settings(id, maxStreams: maxStreams, now: now)
      case .response(let stream, let response):
        machine.answered(id, stream: stream, response, now: now)
      case .reset(let stream, let isRefused):
        machine.reset(id, stream: stream, isRefused: isRefused, now: now)
      case .goAway(let last, let isError, let reason):
        machine.goAway(id, last: last, isError: isError, reason: reason, now: now)
      case .ended(let reason): machine.ended(id, reason, now: now)
      }
    }
  }

  // MARK: Time

  /// One timer, with a short interval while the machine is busy.
  private func armTimer() {
    guard !isFinished else { return }
    let isFast = machine.isBusy
    if timer != nil {
      guard isFast, !isTimerFast else { return }
      timer?.cancel()
    }
    isTimerFast = isFast
    let interval = isFast ? Self.tickInterval : Self.idleTickInterval
    timer = eventLoop.assumeIsolated().scheduleTask(in: interval) {
      self.timer = nil
      self.act { $0.tick(now: $1) }
    }
  }
}
