internal import Glibc
public import Logging

/// How log lines look.
public enum LogFormat: String, CaseIterable, Sendable {
  /// Text where standard error is a terminal, JSON elsewhere.
  case auto
  /// One readable line an event.
  case text
  /// One JSON object a line.
  case json
}

/// Directs swift-log to standard error.
public enum LogSetup {
  /// Must be called once, before the first logger is made.
  public static func bootstrap(level: Logger.Level, format: LogFormat) {
    let asJSON =
      switch format {
      case .auto: isatty(STDERR_FILENO) == 0
      case .text: false
      case .json: true
      }
    LoggingSystem.bootstrap(
      { label, provider in
        LineLogHandler(
          label: label, logLevel: level, asJSON: asJSON, metadataProvider: provider,
          write: writeToStandardError)
      }, metadataProvider: nil)
  }
}

/// Writes a whole line at once, so that lines of several threads and processes never mix.
package func writeToStandardError(_ line: String) {
  var line = line
  line.withUTF8 { bytes in
    var rest = UnsafeRawBufferPointer(bytes)
    while !rest.isEmpty {
      let written = write(STDERR_FILENO, rest.baseAddress, rest.count)
      if written > 0 {
        rest = UnsafeRawBufferPointer(rebasing: rest[written...])
      } else if written == 0 || errno != EINTR {
        return
      }
    }
  }
}

/// A log handler that renders each event as one line and gives it to `write`.
package struct LineLogHandler: LogHandler {
  package let label: String
  package var logLevel: Logger.Level
  package var metadata: Logger.Metadata = [:]
  package var metadataProvider: Logger.MetadataProvider?
  private let asJSON: Bool
  private let write: @Sendable (String) -> Void

  package init(
    label: String, logLevel: Logger.Level, asJSON: Bool,
    metadataProvider: Logger.MetadataProvider? = nil, write: @escaping @Sendable (String) -> Void
  ) {
    self.label = label
    self.logLevel = logLevel
    self.asJSON = asJSON
    self.metadataProvider = metadataProvider
    self.write = write
  }

  package subscript(metadataKey key: String) -> Logger.MetadataValue? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  package func log(event: LogEvent) {
    var all = metadata
    if let provided = metadataProvider?.get() { all.merge(provided) { _, new in new } }
    if let own = event.metadata { all.merge(own) { _, new in new } }
    if let error = event.error, all[LogKey.error.rawValue] == nil {
      all[LogKey.error.rawValue] = "\(error)"
    }
    let pairs = all.sorted { $0.key < $1.key }.map { (key: $0.key, value: $0.value.description) }
    let render = asJSON ? LogLine.json : LogLine.text
    write(
      render(
        CalendarTime.nowMilliseconds(), event.level.rawValue, label, event.message.description,
        pairs))
  }
}
