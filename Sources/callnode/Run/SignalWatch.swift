internal import CallTelemetry
internal import Logging
internal import ServiceLifecycle
internal import UnixSignals

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#else
  internal import Darwin
#endif

/// Runs services until they end, a signal asks them to, or a second signal does not want to wait.
enum SignalWatch {
  /// - Parameter longest: how long a graceful shutdown may take before its rest is cancelled.
  static func run(
    _ services: [any Service], longest: Duration, logger: Logger
  ) async throws {
    var configuration = ServiceGroupConfiguration(
      services: services.map {
        .init(
          service: $0, successTerminationBehavior: .gracefullyShutdownGroup,
          failureTerminationBehavior: .gracefullyShutdownGroup)
      }, logger: quieter(logger))
    configuration.maximumGracefulShutdownDuration = longest
    // What ignores its cancellation for that long ends with the process.
    configuration.maximumCancellationDuration = .seconds(5)
    let group = ServiceGroup(configuration: configuration)
    let signals = await UnixSignalsSequence(trapping: .sigterm, .sigint)

    try await withThrowingTaskGroup(of: Bool.self) { tasks in
      tasks.addTask {
        try await group.run()
        return true
      }
      tasks.addTask {
        var isShuttingDown = false
        for await signal in signals {
          if isShuttingDown {
            logger.warning("second signal: ending at once", metadata: .keys([.signal: "\(signal)"]))
            exit(1)
          }
          isShuttingDown = true
          logger.notice("shutting down", metadata: .keys([.signal: "\(signal)"]))
          await group.triggerGracefulShutdown()
        }
        return false
      }
      while let isGroup = try await tasks.next() {
        if isGroup { break }
      }
      tasks.cancelAll()
    }
  }

  /// The group's own lines on each service's life are for those who debug it.
  private static func quieter(_ logger: Logger) -> Logger {
    var logger = logger
    if logger.logLevel > .debug { logger.logLevel = max(logger.logLevel, .error) }
    return logger
  }
}
