internal import CallBus
internal import CallTelemetry
internal import Logging
internal import ServiceLifecycle
internal import Synchronization
internal import UnixSignals

/// Handles SIGTERM and SIGINT over a process's whole life. The first signal cancels the start, or shuts a
/// serving node down gracefully; the second exits at once.
final class SignalWatch: Sendable {
  /// Closed with the first signal.
  private let asked = Inbox<Never>(capacity: 1)
  private let group = Mutex<ServiceGroup?>(nil)
  private let logger: Logger

  private init(_ logger: Logger) { self.logger = logger }

  /// Runs `body`, and handles signals until it ends.
  /// - Throws: what `body` throws.
  static func run(
    logger: Logger, _ body: @Sendable @escaping (SignalWatch) async throws -> Void
  ) async throws {
    let watch = SignalWatch(logger)
    let signals = await UnixSignalsSequence(trapping: .sigterm, .sigint)
    try await withThrowingTaskGroup(of: Bool.self) { tasks in
      tasks.addTask {
        try await body(watch)
        return true
      }
      tasks.addTask {
        await watch.handle(signals)
        return false
      }
      while let isBody = try await tasks.next() {
        if isBody { break }
      }
      tasks.cancelAll()
    }
  }

  /// Runs a part of the start; the first signal cancels it.
  /// - Returns: nil where a signal came first.
  /// - Throws: what `body` throws.
  func unlessAsked<Value: Sendable>(
    _ body: @Sendable @escaping () async throws -> Value
  ) async throws -> Value? {
    try await asked.unlessClosed(body)
  }

  /// Runs services until they end, or a signal has ended them.
  /// - Parameter longest: how long a graceful shutdown may take before the services are cancelled.
  /// - Throws: what a service throws.
  func serve(_ services: [any Service], longest: Duration) async throws {
    var configuration = ServiceGroupConfiguration(
      services: services.map {
        .init(
          service: $0, successTerminationBehavior: .gracefullyShutdownGroup,
          failureTerminationBehavior: .gracefullyShutdownGroup)
      }, logger: quieter)
    configuration.maximumGracefulShutdownDuration = longest
    // A service that ignores its cancellation for that long ends with the process.
    configuration.maximumCancellationDuration = .seconds(5)
    let group = ServiceGroup(configuration: configuration)
    self.group.withLock { $0 = group }
    guard !asked.isClosed else { return }
    do {
      try await group.run()
    } catch let error as ServiceGroupError
      where error.errorCode == .alreadyFinished && asked.isClosed
    {
      // The signal came between the two lines above.
    }
  }

  private func handle(_ signals: UnixSignalsSequence) async {
    for await signal in signals {
      if asked.isClosed {
        logger.warning("second signal: ending at once", metadata: .keys([.signal: "\(signal)"]))
        endProcess(1)
      }
      logger.notice("shutting down", metadata: .keys([.signal: "\(signal)"]))
      asked.close()
      await group.withLock { $0 }?.triggerGracefulShutdown()
    }
  }

  /// The group logs when each service starts and ends. Those lines are for debugging only.
  private var quieter: Logger {
    var logger = logger
    if logger.logLevel > .debug { logger.logLevel = max(logger.logLevel, .error) }
    return logger
  }
}
