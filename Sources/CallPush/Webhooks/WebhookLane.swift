package import CallAuth
package import CallBus
package import CallCore
internal import CallTelemetry
internal import CallWire
package import Logging
internal import Synchronization

/// Why a webhook did not take a message.
package struct WebhookFailure: Error, Sendable, Equatable {
  package var reason: String
  /// Its answer refuses the message itself: with another one it may do better.
  package var isRefusal: Bool
  /// When the message may be posted again, at the earliest (`Retry-After`, RFC 9110, 10.2.3).
  package var retryAfter: Span?
  package var demand: WebhookHealth.Demand?
  package init(_ reason: String, isRefusal: Bool = false) {
    self.reason = reason
    self.isRefusal = isRefusal
  }

  /// - Parameters:
  ///   - status: of an answer that is no success.
  ///   - retryAfter: as its header says; nil: it has none.
  package init(status: Int, retryAfter: Span? = nil) {
    // 408 and 429 ask for another attempt, and 410 refuses all.
    self.init(
      status == 410 ? "status 410: the webhook is gone" : "status \(status)",
      isRefusal: 400...499 ~= status && ![408, 410, 429].contains(status))
    self.retryAfter = retryAfter
    switch status {
    case 410: demand = .gone
    case 429, 503: demand = retryAfter.map { .pause($0) }
    default: break
    }
  }
}

/// The objects that a gateway needs to deliver to webhooks.
package struct WebhookEnvironment: Sendable {
  /// Distinguishes the runs of gateways.
  package var owner: String
  package var clock: ClusterClock
  package var events: any AppStream
  package var deadLetters: any AppStream
  package var bucket: any KeyValueBucket
  package var post:
    @Sendable (_ url: String, _ headers: [(String, String)], _ body: [UInt8]) async ->
      WebhookFailure?
  package var chance: @Sendable () -> UInt64
  package var logger: Logger

  /// - Parameter post: returns why the message was not taken; nil: it was.
  package init(
    owner: String, clock: ClusterClock, events: any AppStream, deadLetters: any AppStream,
    bucket: any KeyValueBucket, logger: Logger,
    chance: @escaping @Sendable () -> UInt64 = { .random(in: .min ... .max) },
    post:
      @escaping @Sendable (_ url: String, _ headers: [(String, String)], _ body: [UInt8]) async ->
      WebhookFailure?
  ) {
    self.owner = owner
    self.clock = clock
    self.events = events
    self.deadLetters = deadLetters
    self.bucket = bucket
    self.logger = logger
    self.chance = chance
    self.post = post
  }
}

/// One webhook of an app at this gateway: claims it, delivers to it while it is claimed, and hands it back.
///
/// The claim is a record in a bucket, written by compare-and-set (`WebhookClaim`). A gateway whose write is refused has
/// lost the webhook and stops at once. It also posts nothing while its last write is older than half of the time after
/// which others take over.
package final class WebhookLane: Sendable {
  enum Event: Sendable {
    /// - Parameter last: without a message: the sequence of the app's last one.
    case took(WebhookMachine.Message?, last: UInt64?)
    case readFailed
    case answered(WebhookMachine.Place, WebhookFailure?, since: Timestamp)
    case buried(WebhookMachine.Place, isStored: Bool)
    case saved(AppendResult)
    case woke
  }

  /// How often progress is stored, while there is some.
  static let saveInterval = Span.seconds(1)

  let app: String
  let environment: WebhookEnvironment
  let metrics: WebhookMetrics
  /// Bounded by what is under way, but for wake-ups. Policy when full: refuse; the stream is read again anyway.
  let inbox: Inbox<Event>
  private let current: Mutex<WebhookSettings>
  private let stopped = Atomic(false)
  private let isWoken = Atomic(false)

  package init(
    app: String, _ settings: WebhookSettings, _ environment: WebhookEnvironment,
    _ metrics: WebhookMetrics
  ) {
    self.app = app
    self.environment = environment
    self.metrics = metrics
    inbox = Inbox(capacity: 4096, timers: environment.clock.timers)
    current = Mutex(settings)
  }

  package var settings: WebhookSettings { current.withLock { $0 } }

  package func update(_ settings: WebhookSettings) { current.withLock { $0 = settings } }

  /// The app may have new events. One wake-up in the inbox is enough.
  package func wake() {
    if !isWoken.exchange(true, ordering: .acquiringAndReleasing) { inbox.offer(.woke) }
  }

  func tookWakeUp() { isWoken.store(false, ordering: .releasing) }

  var isStopped: Bool { stopped.load(ordering: .acquiring) }

  /// Hands the webhook back, and ends `run`.
  package func stop() {
    stopped.store(true, ordering: .releasing)
    inbox.offer(.woke)
  }

  /// Claims the webhook and delivers, again and again, until it is stopped or cancelled.
  package func run() async {
    while !Task.isCancelled, !isStopped {
      let claim = WebhookClaim(
        bucket: environment.bucket, app: app, endpoint: settings.endpoint,
        owner: environment.owner, clock: environment.clock)
      guard let held = await claim.wait(unless: { self.isStopped }) else { return }
      metrics.owned.set(1)
      let run = WebhookRun(self, claim, held)
      await run.serve()
      metrics.owned.set(0)
      metrics.open.set(0)
      metrics.posting.set(0)
      metrics.away.set(0)
      metrics.gone.set(0)
    }
  }
}
