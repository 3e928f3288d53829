internal import CallAuth
internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging

/// Delivers to a webhook from its claim to its end: carries out what `WebhookMachine` decides.
final class WebhookRun {
  private let lane: WebhookLane
  private let claim: WebhookClaim
  private var machine: WebhookMachine
  private var revision: UInt64
  /// When the last save that is stored was begun.
  private var savedAt: Timestamp
  /// When the save under way was begun.
  private var savingSince: Timestamp?
  /// After a save without an answer.
  private var saveAgainAt = Timestamp(microseconds: 0)
  private var isLost = false
  private var counted = WebhookMachine.Counts()
  private var wasAway = false
  private var wasGone = false

  private var clock: ClusterClock { lane.environment.clock }

  init(_ lane: WebhookLane, _ claim: WebhookClaim, _ held: WebhookClaim.Held) {
    self.lane = lane
    self.claim = claim
    machine = WebhookMachine(held.progress)
    revision = held.revision
    savedAt = held.progress.writtenAt
  }

  /// Returns when the webhook is another gateway's, or is handed back.
  func serve() async {
    await withDiscardingTaskGroup { group in
      while !Task.isCancelled, !isLost, !lane.isStopped {
        let now = clock.now()
        let mayPost = now < postsUntil
        for action in machine.advance(now: now, mayPost: mayPost) { start(action, &group) }
        save(now, &group)
        count()
        let deadline = min(machine.nextDeadline, nextSave, mayPost ? postsUntil : .distantFuture)
        let events = await lane.inbox.next(
          until: deadline == .distantFuture ? nil : clock.instant(at: deadline))
        for event in events { handle(event) }
      }
      group.cancelAll()
    }
    // The result of an attempt under way is not known: the attempt is repeated.
    for event in await lane.inbox.next(until: clock.instant(at: clock.now())) { handle(event) }
    count()
    guard !isLost, savingSince == nil else { return }
    _ = await claim.save(machine.progress, isKept: false, expecting: revision)
  }

  private var postsUntil: Timestamp { savedAt + WebhookClaim.postsWithin }

  private var nextSave: Timestamp {
    if savingSince != nil { return .distantFuture }
    let interval = machine.isChanged ? WebhookLane.saveInterval : WebhookClaim.renewInterval
    return max(saveAgainAt, savedAt + interval)
  }

  private func handle(_ event: WebhookLane.Event) {
    let now = clock.now()
    switch event {
    case .woke:
      lane.tookWakeUp()
      machine.woke(now: now)
    case .took(let message, let last):
      machine.took(message, last: last, kinds: lane.settings.events, now: now)
    case .readFailed: machine.readFailed(now: now)
    case .buried(let place, let isStored):
      machine.buried(place, isStored: isStored, now: now)
      if isStored { lane.metrics.deadLetters.increment() }
    case .answered(let place, let failure, let since):
      (failure == nil ? lane.metrics.delivered : lane.metrics.failed).increment()
      lane.metrics.latency.record(microseconds: (now - since).microseconds)
      machine.answered(place, failure: failure, now: now, chance: lane.environment.chance())
    case .saved(let result):
      guard let since = savingSince.take() else { return }
      switch result {
      case .appended(let sequence): revision = sequence
      case .refused: isLost = true
      // It is retried; nothing is posted if that takes too long.
      case .unknown:
        saveAgainAt = since + WebhookLane.saveInterval
        return
      }
      savedAt = since
    }
  }

  private func save(_ now: Timestamp, _ group: inout DiscardingTaskGroup) {
    guard nextSave <= now else { return }
    savingSince = now
    machine.saved()
    let (progress, revision, claim, inbox) = (machine.progress, revision, claim, lane.inbox)
    group.addTask {
      let result = await claim.save(progress, isKept: true, expecting: revision)
      inbox.offer(.saved(result))
    }
  }

  private func start(_ action: WebhookMachine.Action, _ group: inout DiscardingTaskGroup) {
    let (lane, now) = (lane, clock.now())
    switch action {
    case .read(let sequence):
      group.addTask { lane.inbox.offer(await lane.read(from: sequence)) }
    case .post(let place, let event):
      group.addTask {
        let failure = await lane.post(event, now: now)
        lane.inbox.offer(.answered(place, failure, since: now))
      }
    case .bury(let place, let event, let attempts, let reason):
      let letter = DeadLetter(
        event: event, endpoint: claim.endpoint.id, host: claim.endpoint.host,
        attempts: UInt32(clamping: attempts), reason: reason, at: now)
      group.addTask {
        lane.inbox.offer(.buried(place, isStored: await lane.bury(letter)))
      }
    }
  }

  private func count() {
    let metrics = lane.metrics
    metrics.open.set(Int64(machine.openCount))
    metrics.posting.set(Int64(machine.posting))
    metrics.repeated.increment(by: machine.counts.repeated - counted.repeated)
    metrics.unreadable.increment(by: machine.counts.unreadable - counted.unreadable)
    metrics.lost.increment(by: machine.counts.lost - counted.lost)
    let restarted = machine.counts.restarts != counted.restarts
    counted = machine.counts
    let hasChanged = machine.isAway != wasAway || machine.isGone != wasGone
    guard restarted || hasChanged else { return }
    let keys = Logger.Metadata.keys([.app: "\(lane.app)", .host: "\(claim.endpoint.host)"])
    if restarted {
      lane.environment.logger.warning(
        """
        The stream of events ends before what a webhook has read: it was created again, or lost its \
        end. It is read again from its first message.
        """, metadata: keys)
    }
    guard hasChanged else { return }
    (wasAway, wasGone) = (machine.isAway, machine.isGone)
    metrics.away.set(wasAway ? 1 : 0)
    metrics.gone.set(wasGone ? 1 : 0)
    if wasGone {
      lane.environment.logger.warning(
        "A webhook says that it is gone (410); it is asked once an hour.", metadata: keys)
    } else if wasAway {
      lane.environment.logger.warning(
        "A webhook takes nothing; its events wait.", metadata: keys)
    } else {
      lane.environment.logger.notice("A webhook takes events again.", metadata: keys)
    }
  }
}

extension WebhookLane {
  fileprivate func read(from sequence: UInt64) async -> Event {
    do {
      guard let stored = try await environment.events.next(of: app, from: sequence) else {
        return .took(nil, last: try await environment.events.last(of: app)?.sequence)
      }
      // Bytes that are no message hold nothing up.
      let batch = try? ClusterCodec.appEvents(stored.bytes)
      return .took(
        WebhookMachine.Message(
          sequence: stored.sequence, storedAt: stored.storedAt, events: batch?.events ?? [nil]),
        last: nil)
    } catch {
      return .readFailed
    }
  }

  fileprivate func post(_ event: AppEvent, now: Timestamp) async -> WebhookFailure? {
    let (message, settings) = (WebhookMessage(event), settings)
    return await environment.post(
      settings.endpoint.url, message.headers(settings, now: now), message.body)
  }

  fileprivate func bury(_ letter: DeadLetter) async -> Bool {
    let id = "\(WebhookMessage(letter.event).id)-\(letter.endpoint)"
    let result = await environment.deadLetters.add(
      id: id, app: app, ClusterCodec.encode(letter))
    if case .appended = result { return true }
    return false
  }
}
