"""Back-off, cooperative yields and idle timeouts, as apimachinery's util/wait."""
