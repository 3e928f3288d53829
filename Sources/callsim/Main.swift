internal import ArgumentParser
internal import Glibc

/// Dictionaries must be laid out alike in every run, which the runtime decides before `main`.
@main
enum Main {
  static let switchName = "SWIFT_DETERMINISTIC_HASHING"

  static func main() async {
    if getenv(switchName) == nil {
      setenv(switchName, "1", 1)
      execv("/proc/self/exe", CommandLine.unsafeArgv)
      perror("callsim: cannot start itself anew")
      exit(70)
    }
    await CallSim.main()
  }
}
